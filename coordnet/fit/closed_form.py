"""Closed-form fits: the plan that suits an encoding, what is known of the signal, and what is assumed of it."""

import copy
from typing import Any, Literal

import torch

from coordnet import _checks
from coordnet.encodings import ComplexEncoding, Encoding, FourierEncoding
from coordnet.fit.adaptive import AdaptivePlan
from coordnet.fit.blending import Blending, Kind
from coordnet.fit.least_squares import LeastSquaresPlan
from coordnet.fit.plan import Plan
from coordnet.fit.plan_cache import kept_plan
from coordnet.fit.rowwise import RowwisePlan
from coordnet.fit.smooth import SmoothPlan
from coordnet.linalg.cache import digest
from coordnet.linalg.precision import Precision
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.priors import Adaptive, Smoothness
from coordnet.sampling.axes import ByAxes
from coordnet.sampling.measurements import Masked, Observation, Scattered
from coordnet.sampling.samples import Geometry, Lattice, MaskedLattice, Samples, ScatteredPoints

TOLERANCE = ByAxes({1: 1e-5, 2: 3e-4, 3: 1e-3})
NOTHING_ASSUMED = Smoothness(power=0.0, strength=0.0)


def plan(
    encoding: Encoding,
    geometry: Geometry,
    *,
    prior: Smoothness | Adaptive | None = None,
    ridge: float = 0.0,
    rcond: float | None = None,
    center: bool = True,
    robust: bool = False,
    blending: Kind | None = None,
    exact: bool = False,
    outside: Literal["error", "clamp"] = "error",
    tolerance: float | None = None,
    steps: int = 500,
    progress: bool = False,
    precision: Precision = "float32",
    cached: bool = False,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Plan:
    """Factorise what a closed-form fit of an encoding needs on a geometry.

    Parameters
    ----------
    encoding : ComplexEncoding
        The encoding.
    geometry : Lattice, MaskedLattice or ScatteredPoints
        Where the values will be; ``samples.geometry``.
    prior : Smoothness or Adaptive, optional
        What is assumed between the samples. Without one a whole lattice is fitted by least squares, and of the fits
        to other samples the one of least norm is taken.
    ridge : float
        λ of ‖A w - y‖² + λ ‖w‖², for a whole lattice without a prior.
    rcond : float, optional
        Relative cut of singular values.
    center : bool
        Fit each channel's mean apart.
    robust : bool
        Huber's loss, for samples with outliers; needs a prior.
    blending : str
        How scattered points are tied to the lattice: see ``Blending``. By default "cubic" in one and two
        dimensions and "linear" beyond, which reproduce constants; least squares with the similarity of a narrow
        encoder does not.
    exact : bool
        Evaluate the encoding at scattered points themselves instead, for small problems: see ``RowwisePlan``.
    outside : "error" or "clamp"
        What to do with scattered points outside the lattice.
    tolerance : float, optional
        Relative residual of conjugate gradients; ``TOLERANCE`` by the number of axes if not given.
    steps : int
        At most so many.
    progress : bool
        Show a bar over what iterates.
    precision : "float32", "tf32" or "bf16"
        Of the products of a whole lattice without a prior: see ``precision.multiply``.
    cached : bool
        Take the plan from those made last, where it is among them, and keep it there: see ``clear_plans``. Fits on a
        plan leave it as it is, so that it can be shared.
    dtype, device
        Of the values to come.

    Returns
    -------
    Plan
        ``plan.fit(values)`` gives a ``Reconstruction``.

    Raises
    ------
    ValueError
        If the encoding is not complex, or an argument does not go with the geometry.
    """
    options: dict[str, Any] = {
        "prior": prior,
        "ridge": ridge,
        "rcond": rcond,
        "center": center,
        "robust": robust,
        "blending": blending,
        "exact": exact,
        "outside": outside,
        "tolerance": tolerance,
        "steps": steps,
        "progress": progress,
        "precision": precision,
        "dtype": dtype,
        "device": device,
    }

    def make() -> Plan:
        """Of a copy: what becomes of the caller's mask or points is not the plan's."""
        return _make(encoding, copy.deepcopy(geometry), **options)

    key = digest(encoding, geometry, options) if cached else None
    return make() if key is None else kept_plan(key, make)


def _make(
    encoding: Encoding,
    geometry: Geometry,
    *,
    prior: Smoothness | Adaptive | None,
    ridge: float,
    robust: bool,
    blending: Kind | None,
    exact: bool,
    outside: Literal["error", "clamp"],
    tolerance: float | None,
    steps: int,
    progress: bool,
    precision: Precision,
    **common: Any,
) -> Plan:
    """The plan, made; ``common`` holds what every plan takes."""
    if not isinstance(encoding, ComplexEncoding | FourierEncoding):
        raise _checks.wrong(
            "encoding", "a ComplexEncoding: others have no closed form", type(encoding).__name__
        )
    if prior is None and robust:
        raise _checks.wrong("robust", "a prior beside it: without one every sample is fitted", "none")
    if type(geometry) is Lattice and prior is None and isinstance(encoding, ComplexEncoding):
        return LeastSquaresPlan(encoding, geometry, ridge=ridge, precision=precision, **common)
    if precision != "float32":
        raise _checks.wrong(
            "precision", "float32 unless a whole lattice is fitted without a prior", precision
        )
    if ridge:
        raise _checks.wrong("ridge", "0 unless a whole lattice is fitted without a prior", ridge)
    prior = prior or NOTHING_ASSUMED
    if exact:
        return _rowwise(encoding, geometry, prior, common)
    kind = {"dtype": common["dtype"], "device": common["device"]}
    observation = observe(encoding, geometry, blending=blending, outside=outside, **kind)
    if isinstance(prior, Adaptive):
        if robust:
            raise _checks.wrong("robust", "a smoothness prior", "an adaptive one")
        return AdaptivePlan(
            encoding,
            geometry,
            observation,
            prior,
            tolerance=tolerance or TOLERANCE[len(geometry.grid)],
            steps=steps,
            progress=progress,
            **common,
        )
    return SmoothPlan(
        encoding,
        geometry,
        observation,
        prior,
        robust=robust,
        progress=progress,
        tolerance=tolerance or TOLERANCE[len(geometry.grid)],
        steps=steps,
        **common,
    )


def _rowwise(
    encoding: Encoding, geometry: Geometry, prior: Smoothness | Adaptive, common: dict[str, Any]
) -> RowwisePlan:
    if not isinstance(geometry, ScatteredPoints):
        raise _checks.wrong("exact", "scattered points", type(geometry).__name__)
    if not isinstance(encoding, ComplexEncoding) or not isinstance(prior, Smoothness):
        raise _checks.wrong(
            "exact", "a ComplexEncoding with a smoothness prior or none", type(prior).__name__
        )
    return RowwisePlan(encoding, geometry, prior, **common)


def observe(
    encoding: ComplexEncoding | FourierEncoding,
    geometry: Geometry,
    *,
    blending: Kind | None = None,
    outside: Literal["error", "clamp"] = "error",
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Observation | None:
    """How samples of a geometry depend on the lattice signal; None where they are all of it."""
    if isinstance(geometry, MaskedLattice):
        weights = geometry.weights.movedim(-1, 0).unsqueeze(0)
        return Masked(weights.to(device, dtype).contiguous())
    if isinstance(geometry, ScatteredPoints):
        points = geometry.points.to(device)
        encoders = encoding.axis_encoders if isinstance(encoding, ComplexEncoding) else []
        kind = blending or ("cubic" if len(geometry.grid) <= 2 else "linear")
        made = Blending(
            geometry.axes,
            points,
            encoders=encoders,
            kind=kind,
            outside=outside,
            dtype=dtype,
        )
        weights = torch.ones(len(points), 1) if geometry.weights is None else geometry.weights
        return Scattered(made, weights.T.unsqueeze(0).to(device, dtype))
    if isinstance(encoding, FourierEncoding):  # its padding is unknown
        return Masked(torch.ones(1, 1, *geometry.shape, dtype=dtype, device=device))
    return None


def fit_closed_form(encoding: Encoding, samples: Samples, **options: Any) -> Reconstruction:
    """Fit a complex encoding with a linear head to samples in closed form; see ``plan`` for the options.

    Plans of whole lattices, which are small, are ``cached`` if not said otherwise.
    """
    values, geometry = samples.values, samples.geometry
    options = {"cached": type(geometry) is Lattice, "dtype": values.dtype, "device": values.device, **options}
    return plan(encoding, geometry, **options).fit(values)
