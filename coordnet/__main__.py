"""``python -m coordnet COMMAND …``: the command line from a folder that is not installed."""

import sys

from coordnet.cli import main

if __name__ == "__main__":  # tools import every module
    sys.exit(main())
