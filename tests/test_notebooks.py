"""The notebooks run from top to bottom, and are stored with what they showed."""

import re
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"), key=lambda p: int(p.name.split("_")[0]))
LARGEST = 1_000_000  # bytes
COARSE = """
%matplotlib inline
%config InlineBackend.print_figure_kwargs = {'bbox_inches': None, 'dpi': 10}
from matplotlib.layout_engine import ConstrainedLayoutEngine
ConstrainedLayoutEngine.execute = lambda *_: None
"""


def test_they_are_numbered():
    assert sorted(int(path.name.split("_")[0]) for path in NOTEBOOKS) == list(range(1, len(NOTEBOOKS) + 1))


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """One kernel for all notebooks, which import PyTorch once, and the folder in which they run."""
    folder = tmp_path_factory.mktemp("notebooks")
    manager, client = start_new_kernel(cwd=str(folder))
    client.execute_interactive(COARSE, silent=True)
    yield manager, client, folder
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_runs_and_shows_what_is_stored(path, kernel):
    manager, client, folder = kernel
    client.execute_interactive("%reset -f", silent=True)
    stored = nbformat.read(path, as_version=4)
    run = trained_briefly(nbformat.read(path, as_version=4))
    notebook = NotebookClient(run, km=manager, timeout=None)
    notebook.kc = client
    for index, cell in enumerate(run.cells):
        notebook.execute_cell(cell, index)
    for old, new in zip(stored.cells, run.cells, strict=True):
        if old.cell_type == "code":
            assert kinds(old) == kinds(new)
    assert not list(folder.iterdir())


def trained_briefly(notebook):
    """The notebook with one epoch wherever it trains: what a network learns takes longer to see."""
    for cell in notebook.cells:
        cell.source = re.sub(r"\bepochs( ?)=( ?)\d+", r"epochs\1=\g<2>1", cell.source)
    return notebook


def kinds(cell):
    """What a cell showed: text, pictures."""
    return {o.get("name") or ("picture" if "image/png" in o.get("data", {}) else "value") for o in cell.outputs}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_is_stored_whole_and_small(path):
    assert path.stat().st_size < LARGEST
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert sum("picture" in kinds(cell) for cell in code) >= 3
    assert not any({"stderr"} & kinds(cell) for cell in code)  # no warnings, and none's path
    assert not any("execution" in cell.metadata for cell in notebook.cells)  # no times of a run
