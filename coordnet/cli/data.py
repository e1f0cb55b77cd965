"""The command ``coordnet data``."""

import json
from pathlib import Path

from coordnet.bench import signals
from coordnet.cli.common import Output
from coordnet.cli.report import print_after_writing, results

LIMITS = {"clip": "cubes of 128×128×128 at most", "sound": "131,072 samples at most"}


def run(source: Path, out: Path, crop: int, force: bool, as_json: bool, quiet: bool) -> None:
    """Prepare a folder, and print its contents."""
    kinds = signals.sources(source, out)
    with results(Output(out=out, force=force), "data", source.name) as (staging, final):
        places = signals.prepare(source, kinds, staging, side=crop)
    limits = {"picture": f"{crop}×{crop} pixels at most", **LIMITS}
    counts = {kind: list(kinds.values()).count(kind) for kind in limits}
    files, others = [place.as_posix() for place in places], [place.as_posix() for place in kinds if not kinds[place]]
    lines = [f"{kind + 's:':10}{counts[kind]:>4}, {text}" for kind, text in limits.items() if counts[kind]]
    lines += [f"left out: {', '.join(others)}"] if others else []
    lines.append(f"written to {final}, with {signals.MANIFEST}")
    record = {"from": str(source), "out": str(final), "crop": crop, **counts, "files": files, "left_out": others}
    if as_json or not quiet:
        print_after_writing(json.dumps(record) if as_json else "\n".join(lines))
