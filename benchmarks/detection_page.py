"""The section of change detection on the page of benchmarks of streams."""

HEADING = "## Change detection\n"


def with_detection(page: str, results: dict) -> str:
    """The page with its last section, that of change detection, replaced or appended."""
    return page.split(HEADING)[0].rstrip() + "\n\n" + detection_section(results)


def detection_section(results: dict) -> str:
    """Markdown of the parts that were run."""
    return HEADING + "".join(
        make(results) for name, make in (("tcpd", _tcpd), ("shifts", _shifts)) if name in results
    )


def _tcpd(results: dict) -> str:
    return ""


def _shifts(results: dict) -> str:
    return ""
