"""The notebooks run from top to bottom, and are stored with what they showed."""

import re
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"), key=lambda p: int(p.name.split("_")[0]))
LARGEST = 1_000_000  # bytes
SMALLER = {  # sizes and numbers of the notebooks by those with which the test runs them, each of which must be there
    "1_first_reconstruction": {
        "[60:188, 100:228]": "[60:108, 100:148]",
        "(slice(30, 90), slice(10, 90))": "(slice(10, 40), slice(5, 45))",
        "torch.linspace(30, 90, 90)": "torch.linspace(10, 40, 90)",
        "torch.linspace(10, 90, 120)": "torch.linspace(5, 45, 120)",
    },
    "2_encoders": {
        "[66:162, 181:277]": "[66:90, 181:205]",
        "(0.25, 0.35, 0.5, 0.71, 1, 1.41, 2, 2.83, 4)": "(0.5, 1, 4)",
        "[cn.Gaussian, widened(cn.Gaussian, 0.5), cn.Triangle, cn.DFT]": "[widened(cn.Gaussian, 0.5)]",
        "[cn.Gaussian, cn.encoders.RandomFourier]": "[cn.Gaussian]",
    },
    "3_rank_and_distance": {"-1, 25,": "-1, 7,"},
    "4_closed_form": {
        '"brick")[100:244, 100:244]': '"brick")[100:196, 100:196]',
        "[84:228, 164:308]": "[84:180, 164:260]",
        "quarter = cn.sample(": "cup = cup[:48, :48]\nquarter = cn.sample(",
        "render((48, 48)": "render((16, 16)",
        "fit = cn.fit(quarter, prior=cn.Adaptive())": "fit = cn.fit(quarter, prior=cn.Adaptive(rounds=1))",
    },
    "5_video": {"FRAMES, SIDE, SPEED, BALL = 24, 40": "FRAMES, SIDE, SPEED, BALL = 15, 24"},
    "6_attention": {"batch, tested = 16": "batch, tested = 100"},
    "7_measurements": {
        "[80:176:2, 200:296:2]": "[80:176:4, 200:296:4]",
        "np.linspace(0, 180, 30": "np.linspace(0, 180, 8",
        '("ramp", "shepp-logan", "cosine", "hamming", "hann")': '("ramp", "hann")',
        "range(6)": "range(2)",
        "steps=60": "steps=2",
        "(0.02, (1e-4, 1e-3, 1e-2, 1e-1))": "*()",
    },
    "8_points": {"(2000, 2)": "(100, 2)", "(12, 35, 1)": "(12, 10, 1)", "(250, 2)": "(60, 2)"},
    "10_noise": {
        "[60:188, 160:288]": "[60:124, 160:224]",  # its noise has a spectrum from 64 pixels on
        "[116:212, 196:292]": "[116:156, 196:236]",
        "(128, 96), (244": "(128, 40), (244",
        "[20:148, :160]": "[20:60, :64]",
        "(-1, 1, 96": "(-1, 1, 40",
    },
    "11_denoiser": {
        "[84:132, 270:342]": "[84:100, 270:286]",
        "features=32, blocks=3": "features=4, blocks=1",
        '    "a blur": cn.Denoiser(blur, channels=1),\n': "",
        '    "a wrong range": cn.Denoiser(network, channels=1, range=(0, 255)),\n': "",
    },
}
COARSE = f"""
%matplotlib inline
%config InlineBackend.print_figure_kwargs = {{'bbox_inches': None, 'dpi': 10}}
from matplotlib.layout_engine import ConstrainedLayoutEngine
ConstrainedLayoutEngine.execute = lambda *_: None
import sys
sys.path.append({str(ROOT)!r})
from coordnet.comparison import stopwatch
from tests.helpers import measured_once
stopwatch.measure = measured_once
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
    run = shortened(nbformat.read(path, as_version=4), SMALLER.get(path.stem, {}))
    notebook = NotebookClient(run, km=manager, timeout=None)
    notebook.kc = client
    for index, cell in enumerate(run.cells):
        notebook.execute_cell(cell, index)
    for old, new in zip(stored.cells, run.cells, strict=True):
        if old.cell_type == "code":
            assert kinds(old) == kinds(new)
    assert not list(folder.iterdir())


def shortened(notebook, smaller):
    """The notebook on smaller signals, with one epoch wherever it trains: good results take longer."""
    for text in smaller:
        assert sum(text in cell.source for cell in notebook.cells) == 1, text
    for cell in notebook.cells:
        for text, other in smaller.items():
            cell.source = cell.source.replace(text, other)
        cell.source = re.sub(r"\bepochs( ?)=( ?)\d+", r"epochs\1=\g<2>1", cell.source)
    return notebook


def kinds(cell):
    """The kinds of output that a cell showed: text, pictures."""
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
