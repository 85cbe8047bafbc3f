"""The entry of the command line, also as `python -m evidentia`."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `evidentia.cli.main`; Ctrl-C during the imports ends it without a traceback."""
    try:
        from evidentia.cli import main

        return main(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
