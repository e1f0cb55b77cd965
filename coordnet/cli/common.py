"""What every command that makes something is told."""

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Common:
    """The options that these commands have in common, in their order."""

    seed: int
    device: str
    out: Path | None
    force: bool
    json: bool
    quiet: bool

    @property
    def progress(self) -> bool:
        """Whether to show bars: not where a script reads the record."""
        return not self.quiet and (sys.stderr.isatty() or not self.json)
