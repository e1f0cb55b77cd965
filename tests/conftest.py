import sys
from pathlib import Path

import pytest
import torch

from coordnet.cli import main
from tests.helpers import synthetic_photograph

DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(1)


@pytest.fixture
def photograph():
    return synthetic_photograph(64, 48)


@pytest.fixture(scope="session")
def data():
    if not DATA.is_dir():
        pytest.skip(f"needs the photographs in {DATA}")
    return DATA


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command line in an empty folder: (exit status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["coordnet", *map(str, arguments)])
        status = main()
        out, err = capsys.readouterr()
        return status, out, err

    return run
