"""The command ``coordnet data``."""

import json
from pathlib import Path

from coordnet import _checks
from coordnet.bench import prepare
from coordnet.cli.common import Output
from coordnet.cli.report import print_after_writing, results

LIMITS = {"clip": "cubes of 128×128×128 at most", "sound": "131,072 samples at most"}


def run(
    source: Path | None, out: Path | None, check: Path | None, crop: int, force: bool, as_json: bool, quiet: bool
) -> None:
    """Prepare a folder, or check one that was prepared, and print the outcome."""
    if check is not None:
        if source is not None or out is not None:
            raise _checks.wrong("check", "no --from and no --out beside it", check)
        record = {"folder": str(check), "files": prepare.check(check), "agree": True}
        text = f"{check}: every file agrees with {prepare.MANIFEST}"
    else:
        record, text = _prepare(source, out, crop, force)
    if as_json or not quiet:
        print_after_writing(json.dumps(record) if as_json else text)


def _prepare(source: Path | None, out: Path | None, crop: int, force: bool) -> tuple[dict[str, object], str]:
    if source is None or out is None:
        missing = " nor ".join(name for name, value in (("--from", source), ("--out", out)) if value is None)
        raise _checks.wrong("data", "--from DIR and --out DIR, or --check DIR alone", f"no {missing}")
    _checks.integer("crop", crop, 1)
    kinds = prepare.sources(source, out)
    with results(Output(out=out, force=force), "data", source.name) as (staging, final):
        places = prepare.prepare(source, kinds, staging, side=crop)
    limits = {"picture": f"{crop}×{crop} pixels at most", **LIMITS}
    counts = {kind: list(kinds.values()).count(kind) for kind in limits}
    files, others = [place.as_posix() for place in places], [place.as_posix() for place in kinds if not kinds[place]]
    lines = [f"{kind + 's:':10}{counts[kind]:>4}, {text}" for kind, text in limits.items() if counts[kind]]
    lines += [f"left out: {', '.join(others)}"] if others else []
    lines.append(f"written to {final}, with {prepare.MANIFEST}")
    head = {"from": str(source), "out": str(final), "crop": crop}
    return {**head, **counts, "files": files, "left_out": others}, "\n".join(lines)
