"""The command line: ``coordnet COMMAND …``."""

from coordnet.cli.running import main as main
