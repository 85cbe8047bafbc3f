"""What is written for people: a folder of results, and the page in it that shows them."""

from evidentia.report.folder import results_dict, write_results
from evidentia.report.page import write_report

__all__ = ["results_dict", "write_report", "write_results"]
