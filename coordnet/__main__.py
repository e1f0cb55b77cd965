"""``python -m coordnet COMMAND …``: the command line from a folder that is not installed."""

import sys

from coordnet.cli import main

sys.exit(main())
