"""Rows of the experiments' tables: the papers' methods with the papers' settings, our own, and other libraries'."""

from collections.abc import Iterator

from coordnet.bench.protocols.cells import Method
from coordnet.bench.protocols.printed import Column
from coordnet.encodings.encoders import Encoder
from coordnet.encodings.registry import ENCODERS

CHEAP, SLOW, TRAINED, LONG = range(4)  # in which order methods run
LIMIT = 120.0  # seconds for a rival that may take forever


def simple(column: Column, of: int, encoding: dict[str, str], **settings: object) -> tuple[Method, ...]:
    """An MLP on a simple encoding, a row for each encoder."""
    return tuple(
        Method(
            f"MLP, simple {name}",
            "gradient",
            "gradient",
            {
                "encoding": encoding.get(name, "simple"),
                "encoder": name,
                "scale": s.scale,
                "of": of,
                **settings,
            },
            (s.psnr, s.seconds),
            LONG,
            True,
        )
        for name, s in column.items()
    )


def descended(column: Column, of: int, **settings: object) -> tuple[Method, ...]:
    """A linear head on a complex encoding, by gradient."""
    shared = {"encoding": "complex", "of": of, "depth": 0, "width": 0, "lr": 0.1, **settings}
    return tuple(
        Method(
            f"gradient, complex {name}",
            "gradient",
            "gradient",
            {**shared, "encoder": name, "scale": s.scale},
            (s.psnr, s.seconds),
            TRAINED,
            True,
        )
        for name, s in column.items()
    )


def solved(
    column: Column, of: int, *, prior: dict[str, float] | None = None, **settings: object
) -> tuple[Method, ...]:
    """A linear head on a complex encoding, in closed form, with a smoothness prior or none.

    On a virtual grid samples are tied to the nodes as the papers tie them, as gradient fits there do.
    """
    shared = {"encoding": "complex", "of": of, **settings, **({"prior": prior} if prior else {})}
    if "virtual" in settings:
        shared["blending"] = "similarity"
    return tuple(
        Method(
            f"closed form, complex {name}" + (", smooth prior" if prior else ""),
            "closed form",
            "closed form",
            {**shared, "encoder": name, "scale": s.scale},
            (s.psnr, s.seconds),
            CHEAP,
            name == "rff",
        )
        for name, s in column.items()
    )


def rival(name: str, method: str, cost: int = CHEAP, **settings: object) -> Method:
    """A method of another library."""
    return Method(name, "baseline", "baseline", {"method": method, **settings}, cost=cost)


def smooth(prior: dict[str, float], **settings: object) -> Method:
    """The closed form of an impulse at every sample of the signal's own grid, with a smoothness prior."""
    shared = {"encoding": "complex", "encoder": "impulse", "prior": prior, **settings}
    return Method("closed form, smooth prior", "closed form", "closed form", shared)


ADAPTIVE = Method(
    "closed form, adaptive prior",
    "closed form",
    "closed form",
    {"encoding": "fourier", "prior": "adaptive"},
    cost=SLOW,
)
SPLINES = (
    rival("nearest sample", "nearest"),
    rival("linear spline (SciPy)", "linear"),
    rival("cubic spline (SciPy)", "cubic"),
)
GRIDDATA = (
    rival("griddata nearest (SciPy)", "nearest"),
    rival("griddata linear (SciPy)", "linear"),
    rival("griddata cubic (SciPy)", "cubic"),
)
GRIDDATA_3D = (
    GRIDDATA[0],
    rival("griddata linear (SciPy)", "patient linear", SLOW, limit=10 * LIMIT),
    GRIDDATA[2],
)
SLOW_RIVALS = (
    rival("RBFInterpolator, thin plate, 20 neighbours (SciPy)", "thin plate", SLOW, limit=LIMIT),
    rival("biharmonic inpainting (scikit-image)", "biharmonic", SLOW, limit=LIMIT),
)
DIRECTIONS = {"triangle": "directional", "gaussian": "directional"}
MLP_2D = {"features": 512, "depth": 4, "width": 256, "lr": 5e-3}
MLP_3D = {"features": 192, "depth": 5, "width": 512, "lr": 5e-3}


def every_encoder() -> Iterator[Method]:
    """Each encoder at its defaults: complex where it is of one axis, linear and MLP."""
    for name, kind in ENCODERS.items():
        one_axis = issubclass(kind, Encoder)
        trains = name in ("embedding", "joint-embedding", "hash-grid", "learnable-fourier")
        for encoding in ("simple", "complex") if one_axis else ("simple",):
            for head, depth, lr in (("linear", 0, 0.1), ("MLP", 4, 5e-3)):
                settings: dict[str, object] = {"encoding": encoding, "encoder": name}
                in_closed_form = encoding == "complex" and not depth and not trains
                if not in_closed_form:
                    settings |= {"depth": depth, "width": 256 if depth else 0, "lr": lr}
                group = "closed form" if in_closed_form else "gradient"
                cost = CHEAP if in_closed_form else LONG if depth else TRAINED
                yield Method(f"{name}, {encoding}, {head}", group, group, settings, cost=cost, draws=True)
