"""Run the cells of a study, and record each result."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from coordnet.bench import papers
from coordnet.bench.attention_study import Attention
from coordnet.bench.cubes_study import Cubes
from coordnet.bench.jobs import Failed, outcomes
from coordnet.bench.kinds_study import Kinds
from coordnet.bench.large_study import Large
from coordnet.bench.points_study import PointsStudy
from coordnet.bench.quality_study import Quality
from coordnet.bench.records import NAME, Options, Record, Study, appending, failed, read
from coordnet.bench.series import Series
from coordnet.bench.speed import Speed

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (*papers.STUDIES, Quality(), Speed(), Attention(), Series(), Kinds(), PointsStudy(), Cubes(), Large())
}


def report(name: str, options: Options | None, folder: Path, *, progress: bool = True) -> tuple[str, int]:
    """Run a study, write its tables and figures; return the text of its report, and the number of cells that failed.

    Without options the records that exist are reported; without records ValueError is raised.
    """
    study, lines, broken = STUDIES[name], [], 0
    if options is not None:
        count, broken = run(study, options, folder, progress=progress)
        lines.append(f"{count} cells, {broken} of them failed, in {folder / NAME}")
    try:
        written = study.write(folder)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{folder / NAME}: expected records of {name}, found others ({error!r})") from error
    lines.insert(0, written[0].read_text(encoding="utf-8"))
    return "\n".join([*lines, "written to " + ", ".join(str(path) for path in written)]), broken


def run(study: Study, options: Options, folder: Path, *, progress: bool = True) -> tuple[int, int]:
    """Carry out the cells that are not recorded yet; return the number of cells, and of those that failed.

    An option that does not fit, or a signal that cannot be read, raises ValueError before anything is run. At the time
    ``options.until`` the run ends with the cell that is under way.
    """
    keys: set[str] = set()
    done = read(folder)
    for stage in study.stages(options, done):
        cells = {cell.key: cell for cell in stage if cell.key not in keys}
        keys |= set(cells)
        always = study.always and not options.resume
        new = [c for k, c in cells.items() if always or k not in done or (options.retry and failed(done[k]))]
        for signal in dict.fromkeys(cell.signal for cell in new if cell.signal):
            signal.load()  # a broken file ends the run before anything is written
        if not new:
            continue
        bar: dict[str, Any] = {"total": len(cells), "initial": len(cells) - len(new), "desc": study.name}
        carried_out = outcomes({cell.key: cell.run for cell in new}, workers=options.workers, dask=options.dask)
        with carried_out as results, appending(folder) as add, tqdm(**bar, disable=not progress) as shown:
            for key, outcome in results:
                record = cells[key].failed(outcome.reason) if isinstance(outcome, Failed) else outcome
                add(record)
                done[record["key"]] = record
                shown.set_postfix_str(f"{record['cell']['task']}, {record['cell']['method']['name']}", refresh=False)
                shown.update()
                if time.monotonic() >= options.until:
                    return _counts(keys, done)
    return _counts(keys, done)


def _counts(keys: set[str], done: Mapping[str, Record]) -> tuple[int, int]:
    return len(keys), sum(failed(done[key]) for key in keys & done.keys())
