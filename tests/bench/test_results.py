"""The committed tables are made from the committed records, and the records are those of today's cells."""

import csv
import io
import json
import math
import re
from pathlib import Path

import pytest

from coordnet.bench import timings
from coordnet.bench.cube_fields import CUBES
from coordnet.bench.experiment import estimation
from coordnet.bench.kinds_study import FIELD_SIDES
from coordnet.bench.large_study import EXPERIMENTS as LARGE_EXPERIMENTS
from coordnet.bench.quality import EXPERIMENTS
from coordnet.bench.records import NAME, Options, read
from coordnet.bench.runner import STUDIES
from coordnet.bench.signals import Signal
from coordnet.bench.speed import SIZES, TASK_GROUPS

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.parent.name for path in RESULTS.glob(f"*/{NAME}"))
TRAININGS = ("attention", "series")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")
OWN_CELLS = (
    "quality",
    "speed",
    "points",
    "cubes",
    "kinds",
    "large",
    *TRAININGS,
)  # folders whose studies make other cells


def study(folder):
    return STUDIES[folder.split("-")[0]]


def equal(one, other):
    """Whether two texts are the same but for the rounding of their numbers' last digits."""
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(a == b or math.isclose(float(a), float(b), rel_tol=1e-9) for a, b in pairs)


def test_every_folder_of_records_belongs_to_a_study():
    assert len(FOLDERS) == 19
    assert set(STUDIES) == {study(folder).name for folder in FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_committed_tables_come_from_the_committed_records(folder):
    records = study(folder).records(RESULTS / folder)
    made = study(folder).contents(records)
    figure = made.pop(".png", None)
    if folder in ("rethinking", "noise", "sampling", "figure7", "features", "epochs"):  # a curve for each peer
        methods = [record["cell"]["method"] for record in records]
        labels = {line.get_label() for ax in figure.axes for line in ax.get_lines()}
        assert {method["name"] for method in methods if method["group"] == "baseline"} <= labels
    for suffix, content in made.items():
        committed = (RESULTS / folder / f"{study(folder).name}{suffix}").read_text()
        for one, other in zip(content.splitlines(), committed.splitlines(), strict=True):
            assert equal(one, other), f"{folder}: {one} is not {other}"


def test_the_numbers_of_the_readme_are_those_of_the_records():
    table = csv.DictReader(io.StringIO((RESULTS / "table2" / "table2.csv").read_text()))
    quarter = {row["method"]: f"{float(row['held_out']):.2f}" for row in table if row["device"] == "cpu"}
    rows = [line.split(" | ") for line in (RESULTS / "quality" / "quality.md").read_text().splitlines()]
    others = {(row[0].strip("| "), row[2]): row[4] for row in rows if len(row) > 8}
    first = json.loads((RESULTS / "first" / "record.json").read_text())
    readme = (RESULTS.parent / "README.md").read_text()
    stated = {row[0].strip("| "): NUMBER.findall(" ".join(row[2:])) for row in map(split, readme.splitlines())}

    methods = ("biharmonic inpainting (scikit-image)", "griddata linear (SciPy)", "closed form, local prior")
    assert stated["a random quarter of the pixels"] == [quarter[name] for name in methods]
    for name, task, methods in (
        ("all but text over the image", "text", ("biharmonic", "OpenCV, Telea", "local")),
        ("means over 2×2 pixels", "reduced by 2", ("Lanczos", "bicubic", "upscale")),
        ("every pixel, with noise of σ = 0.1", "full, σ = 0.1", ("CBM3D, true σ", "non-local means", "local")),
        ("30 projections, with noise", "30 projections", ("filtered back-projection", "SART", "coordnet fit")),
    ):
        assert stated[name] == [others[task, method] for method in methods]
    decibels = first["psnr"]["held_out"], *first["baselines"].values()
    assert re.findall(r"\d\d\.\d\d", readme)[:4] == [f"{value:.2f}" for value in decibels]


def split(line):
    """The cells of a row of a table."""
    return line.split(" | ")


def cells(records, experiment):
    """The cells of an experiment on the signals that records have."""
    methods = {(t.name, m.name): (t, m) for t, block in experiment.blocks.items() for m in block}
    for record in records:
        cell = record["cell"]
        task, method = methods[cell["task"], cell["method"]["name"]]
        signal = Signal(**cell["signal"], path=Path())
        kept = {key: cell[key] for key in ("experiment", "seed", "epochs", "device")}
        yield record["key"], estimation(task, signal, method, **kept).key


@pytest.mark.parametrize("folder", [f for f in FOLDERS if f not in OWN_CELLS])
def test_a_run_goes_on_from_the_committed_records_of_a_paper(folder):
    """Whoever changes a setting runs its cells again: this must not happen by accident."""
    assert all(a == b for a, b in cells(read(RESULTS / folder).values(), study(folder).experiment))


def test_a_run_goes_on_from_the_committed_records_of_points():
    study = STUDIES["points"]
    for key, record in read(RESULTS / "points").items():
        cell = record["cell"]
        assert key in {made.key for made in study.cells(cell["task"], print, cell["device"])}


@pytest.mark.parametrize("field", ["camera", "page", "moon"])
def test_a_run_goes_on_from_the_committed_records_of_kinds(field):
    study, found = STUDIES["kinds"], 0
    for key, record in read(RESULTS / "kinds").items():
        cell = record["cell"]
        if cell["signal"]["name"] == field:
            side = FIELD_SIDES[len(cell["signal"]["grid"])]
            assert key in {made.key for made in study.of_field(field, side, cell["task"], cell["device"])}
            found += 1
    assert found == 14


def test_a_run_goes_on_from_the_committed_records_of_cubes():
    """Fields that a package ships have the same keys where it is installed; those of the data folder need the data."""
    pytest.importorskip("iris_sample_data", reason="needs the extra 'bench'")
    study, found = STUDIES["cubes"], 0
    for key, record in read(RESULTS / "cubes").items():
        cell = record["cell"]
        if isinstance(CUBES[cell["signal"]["name"]].origin, str):
            made = study.cell(cell["signal"]["name"], cell["task"], cell["method"]["name"], None)
            assert made.key == key
            found += 1
    assert found == 56


@pytest.mark.slow
def test_a_run_goes_on_from_the_other_committed_records():
    records = [record for folder in ("quality", "large") for record in read(RESULTS / folder).values()]
    for experiment in (*EXPERIMENTS, *LARGE_EXPERIMENTS):
        found = [record for record in records if record["cell"]["experiment"] == experiment.name]
        assert found and all(a == b for a, b in cells(found, experiment))
    tasks = [task for group in TASK_GROUPS for task in timings.tasks(group, SIZES, quick=False)]
    assert {task.key for task in tasks} <= set(read(RESULTS / "speed"))


@pytest.mark.parametrize("name", TRAININGS)
def test_a_run_goes_on_from_the_committed_trainings(name):
    pytest.importorskip("sklearn", reason="needs the extra 'attention'")
    done = read(RESULTS / name)
    stages = list(STUDIES[name].stages(Options(), done))
    assert {cell.key for stage in stages for cell in stage} == set(done)
