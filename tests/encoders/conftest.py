"""Every encoder of the registry inherits the tests that take ``encoder`` (or ``one_axis``, ``joint``)."""

import pytest

from coordnet.encoders import ENCODERS, Encoder, JointEncoder

KINDS = {
    "encoder": ENCODERS,
    "one_axis": {n: e for n, e in ENCODERS.items() if issubclass(e, Encoder)},
    "joint": {n: e for n, e in ENCODERS.items() if issubclass(e, JointEncoder)},
    "scaled": {n: e for n, e in ENCODERS.items() if e.parameters},
}


def pytest_generate_tests(metafunc):
    for kind, encoders in KINDS.items():
        if kind in metafunc.fixturenames:
            metafunc.parametrize(kind, encoders.values(), ids=list(encoders))


@pytest.fixture
def small():
    """Options that keep an encoder small enough for gradient checks."""
    return {
        "learnable-fourier": {"fourier": 6, "hidden": 4, "features": 8},
        "hash-grid": {"levels": 3, "table": 64, "features": 6, "coarsest": 4},
    }
