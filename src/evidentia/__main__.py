"""The entry of the command line, also as `python -m evidentia`."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C during the imports ends it without a traceback."""
    try:
        from evidentia.cli import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
