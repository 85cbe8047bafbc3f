"""`python -m evidentia` runs the command line."""

import sys

from evidentia.cli import main

if __name__ == "__main__":
    sys.exit(main())
