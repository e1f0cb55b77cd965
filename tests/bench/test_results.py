"""The committed tables are made from the committed records, and the records are those of today's cells."""

import csv
import io
import math
import re
from pathlib import Path

import pytest

from coordnet.bench import timings
from coordnet.bench.data import Signal
from coordnet.bench.estimation import estimation
from coordnet.bench.quality import EXPERIMENTS
from coordnet.bench.records import NAME, read
from coordnet.bench.runner import STUDIES
from coordnet.bench.speed import GROUPS, SIZES
from coordnet.bench.study import Options

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.parent.name for path in RESULTS.glob(f"*/{NAME}"))
TRAININGS = ("attention", "series")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def study(folder):
    return STUDIES[folder.split("-")[0]]


def equal(one, other):
    """Whether two texts are the same but for the rounding of their numbers' last digits."""
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(a == b or math.isclose(float(a), float(b), rel_tol=1e-9) for a, b in pairs)


def test_every_folder_of_records_belongs_to_a_study():
    assert len(FOLDERS) == 15
    assert {study(folder).name for folder in FOLDERS} == set(STUDIES)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_committed_tables_come_from_the_committed_records(folder):
    made = study(folder).tables(study(folder).records(RESULTS / folder))
    for suffix, content in made.items():
        committed = (RESULTS / folder / f"{study(folder).name}{suffix}").read_text()
        for one, other in zip(content.splitlines(), committed.splitlines(), strict=True):
            assert equal(one, other), f"{folder}: {one} is not {other}"


def test_the_numbers_of_the_readme_are_those_of_the_records():
    """Means that the README states, to check the tables against a source that no code has written."""
    rows = [line.split(" | ") for line in (RESULTS / "quality" / "quality.md").read_text().splitlines()]
    found = {(row[0].strip("| "), row[2]): row[4] for row in rows if len(row) > 8}
    assert found["holes", "biharmonic"] == "21.20" and found["holes", "adaptive"] == "23.32"
    assert found["mosaic RGGB", "Malvar 5×5"] == "35.33" and found["mosaic RGGB", "adaptive"] == "37.90"
    assert found["sound, random quarter", "adaptive"] == "27.64"
    table = csv.DictReader(io.StringIO((RESULTS / "table2" / "table2.csv").read_text()))
    means = {row["method"]: f"{float(row['held_out']):.2f}" for row in table}
    assert means["closed form, adaptive prior"] == "26.83" and means["griddata linear (SciPy)"] == "25.79"


def cells(records, experiment):
    """The cells of an experiment on the signals that records have."""
    methods = {(t.name, m.name): (t, m) for t, block in experiment.blocks.items() for m in block}
    for record in records:
        cell = record["cell"]
        task, method = methods[cell["task"], cell["method"]["name"]]
        signal = Signal(**cell["signal"], path=Path())
        kept = {key: cell[key] for key in ("experiment", "seed", "epochs", "device")}
        yield record["key"], estimation(task, signal, method, **kept).key


@pytest.mark.parametrize("folder", [f for f in FOLDERS if f not in ("quality", "speed", *TRAININGS)])
def test_a_run_goes_on_from_the_committed_records_of_a_paper(folder):
    """Whoever changes a setting runs its cells again: this must not happen by accident."""
    assert all(a == b for a, b in cells(read(RESULTS / folder).values(), study(folder)))


def test_a_run_goes_on_from_the_other_committed_records():
    for experiment in EXPERIMENTS:
        found = [r for r in read(RESULTS / "quality").values() if r["cell"]["experiment"] == experiment.name]
        assert found and all(a == b for a, b in cells(found, experiment))
    tasks = [task for group in GROUPS for task in timings.tasks(group, SIZES, quick=False)]
    assert {task.key for task in tasks} <= set(read(RESULTS / "speed"))


@pytest.mark.parametrize("name", TRAININGS)
def test_a_run_goes_on_from_the_committed_trainings(name):
    pytest.importorskip("sklearn", reason="needs the extra 'attention'")
    done = read(RESULTS / name)
    stages = list(STUDIES[name].stages(Options(), done))
    assert {cell.key for stage in stages for cell in stage} == set(done)
