"""Written results: a folder of files, and the page that shows them."""

from evidentia.report.folder import results_dict, write_results

__all__ = ["results_dict", "write_results"]
