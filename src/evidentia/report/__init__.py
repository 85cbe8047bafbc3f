"""Written results: a folder of files, and the page that shows them."""

from evidentia.report.folder import results_dict, write_results
from evidentia.report.page import write_report

__all__ = ["results_dict", "write_report", "write_results"]
