"""The studies by name, and the entry point of ``coordnet bench``."""

from pathlib import Path

from coordnet.bench import papers, runner
from coordnet.bench.attention import Attention
from coordnet.bench.quality import Quality
from coordnet.bench.records import NAME
from coordnet.bench.speed import Speed
from coordnet.bench.study import Options, Study

STUDIES: dict[str, Study] = {study.name: study for study in (*papers.STUDIES, Quality(), Speed(), Attention())}


def run(name: str, options: Options | None, folder: Path, *, progress: bool = True) -> str:
    """Run a study, write its tables and figures, and return the text of its report.

    Without options the records that exist are reported; without records ValueError is raised.
    """
    study, lines = STUDIES[name], []
    if options is not None:
        count, failed = runner.run(study, options, folder, progress=progress)
        lines.append(f"{count} cells, {failed} of them failed, in {folder / NAME}")
    written = study.write(folder)
    lines.insert(0, written[0].read_text(encoding="utf-8"))
    return "\n".join([*lines, "written to " + ", ".join(str(path) for path in written)])
