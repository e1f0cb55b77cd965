"""The command ``coordnet data``."""

import json
import sys
from pathlib import Path

from coordnet import _checks
from coordnet.bench import prepare
from coordnet.cli.common import Output
from coordnet.cli.report import results


def run(
    source: Path | None, out: Path | None, check: Path | None, crop: int, force: bool, as_json: bool, quiet: bool
) -> None:
    """Prepare a folder, or check one that was prepared."""
    progress = not quiet and (sys.stderr.isatty() or not as_json)
    if check is not None:
        if source is not None or out is not None:
            raise _checks.wrong("check", "no --from and no --out beside it", check)
        _tell(
            {"folder": str(check), "files": prepare.check(check, progress=progress), "agree": True},
            f"{check}: every file is as {prepare.MANIFEST} has it",
            as_json,
            quiet,
        )
        return
    if source is None or out is None:
        missing = " nor ".join(name for name, value in (("--from", source), ("--out", out)) if value is None)
        raise _checks.wrong("data", "--from DIR and --out DIR, or --check DIR alone", f"no {missing}")
    _checks.integer("crop", crop, 1)
    found, left = prepare.sources(source, out)
    with results(Output(out=out, force=force), "data", source.name) as (staging, final):
        places = prepare.prepare(found, staging, side=crop, progress=progress)
    counts = {kind: sum(s.kind == kind for s in found) for kind in ("picture", "clip", "sound")}
    record = {
        "from": str(source),
        "out": str(final),
        "crop": crop,
        **counts,
        "files": [place.as_posix() for place in places],
        "left_out": [place.as_posix() for place in left],
    }
    _tell(record, "\n".join(_lines(counts, crop, left, final)), as_json, quiet)


def _lines(counts: dict[str, int], crop: int, left: list[Path], final: Path) -> list[str]:
    made = {
        "picture": f"{crop}×{crop} pixels at most",
        "clip": "cubes of 128×128×128 at most",
        "sound": "131,072 samples at most",
    }
    lines = [f"{kind + 's:':10}{counts[kind]:>4}, {text}" for kind, text in made.items() if counts[kind]]
    lines += [f"left out: {', '.join(place.as_posix() for place in left)}"] if left else []
    return [*lines, f"written to {final}, with {prepare.MANIFEST}"]


def _tell(record: dict[str, object], text: str, as_json: bool, quiet: bool) -> None:
    if as_json:
        print(json.dumps(record, ensure_ascii=False))
    elif not quiet:
        print(text)
