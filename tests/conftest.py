from pathlib import Path

import pytest
import torch

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
