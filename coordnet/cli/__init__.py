"""The command line: ``coordnet COMMAND …``."""

from coordnet.cli.app import main as main
