"""Every encoder of the registry inherits the tests that take ``encoder`` (or ``one_axis``, ``joint``)."""

from coordnet.encodings.encoders import Encoder, JointEncoder
from coordnet.encodings.kinds import ENCODERS

KINDS = {
    "encoder": ENCODERS,
    "one_axis": {n: e for n, e in ENCODERS.items() if issubclass(e, Encoder)},
    "joint": {n: e for n, e in ENCODERS.items() if issubclass(e, JointEncoder)},
    "scaled": {n: e for n, e in ENCODERS.items() if e.scales},
}


# Choices beside the default under which an encoder is another formula.
VARIANTS = {
    "bspline": [{"degree": degree} for degree in range(6)],
    "uneven-spline": [{"degree": degree} for degree in (1, 3, 5)],
    "dft": [{"features": 25}, {"features": 24, "step": 1 / 24}],
    "learnable-fourier": [
        {"gamma": 0.3, "fourier": 12, "hidden": 6, "features": 8},
        {"gamma": 0.3, "fourier": 12, "hidden": 0},
        {"gamma": 0.3, "fourier": 12, "hidden": 6, "features": 8, "groups": 2},
    ],
    "joint-rff": [{"features": 32}],
    "md-sine": [{"features": 32}],
    "hash-grid": [{"levels": 3, "coarsest": 3, "growth": 2.0, "table": t} for t in (20, 1000)],
}


def pytest_generate_tests(metafunc):
    for kind, encoders in KINDS.items():
        if kind in metafunc.fixturenames:
            metafunc.parametrize(kind, encoders.values(), ids=list(encoders))
    if "variant" in metafunc.fixturenames:
        cases = [(e, options) for n, e in ENCODERS.items() for options in VARIANTS.get(n, [{}])]
        ids = [f"{e.name}-{i}" for i, (e, _) in enumerate(cases)]
        metafunc.parametrize("variant", cases, ids=ids)
