"""Closed-form fits: the plan for an encoding, a geometry, and what is assumed of the signal."""

import copy
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.fitting.channel_groups import fit_by_channel
from coordnet.fitting.choice import choose_prior, suited
from coordnet.fitting.uncertainty.recipe import Recipe, deviations
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.networks.fit_reports import FitReport
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plans.plan import Plan, follows_scales
from coordnet.priors.base import Prior, Setting, as_prior
from coordnet.priors.least_squares import HELD, LeastSquares
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.arrays import FLOATS
from coordnet.sampling.samples import Geometry, Samples

LEAST_SQUARES = LeastSquares()
NO_PENALTY = Smoothness(power=0.0, strength=0.0)
LEAST_NORM = "`prior`: with None, what the samples leave open is of least norm; 'auto' or cn.Adaptive() estimates it"


def plan(
    encoding: Encoding,
    geometry: Geometry,
    prior: Prior | Literal["auto"] | None = "auto",
    *,
    solver: ConjugateGradients | None = None,
    center: bool = True,
    progress: bool = False,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Plan:
    """Factorize a closed-form fit of an encoding on a geometry.

    Parameters
    ----------
    encoding : ComplexEncoding or FourierEncoding
        The encoding.
    geometry : Lattice, MaskedLattice, RectilinearLattice, AreaLattice, ScatteredPoints or OperatorGeometry
        Where the values will be; ``samples.geometry``.
    prior : Prior, "auto" or None
        The assumption about the signal. With "auto" it is what suits the geometry: the ``Stack`` of several priors, or
        one. With None a whole lattice is fitted by least squares, and other samples get the interpolation of least
        norm, with a ``CoordnetWarning``.
    solver : ConjugateGradients, optional
        The stopping rule of plans that iterate.
    center : bool
        Whether each channel's mean is subtracted before the fit and added to its result.
    progress : bool
        Whether to show a bar while a fit iterates.
    dtype, device
        Those of the values that ``plan.fit`` will take.

    Raises
    ------
    ValueError
        If the encoding has no closed form, the prior does not suit the geometry, the solver is of another kind, the
        dtype is neither float32 nor float64, the device is not present, or gradients are followed to learnable scales
        of an encoding that is not fitted by least squares on a whole lattice. Through those gradients flow to the
        scales; each ``backward`` needs a plan of its own, unless the graph is retained.
    """
    if not getattr(encoding, "is_factored", False):
        expected = "a ComplexEncoding or FourierEncoding: others have no closed form"
        raise _checks.wrong("encoding", expected, type(encoding).__name__)
    if dtype not in FLOATS:
        raise _checks.wrong("dtype", "torch.float32 or torch.float64", dtype)
    if not hasattr(geometry, "is_whole_lattice"):
        expected = "a geometry such as cn.sampling.Lattice, or the one of samples"
        raise _checks.wrong("geometry", expected, type(geometry).__name__)
    if not geometry.is_even and not encoding.axis_encoders:
        expected = "a ComplexEncoding, whose axes have matrices, at unequal coordinates (`fit_closed_form` blends)"
        raise _checks.wrong("encoding", expected, type(encoding).__name__)
    _checks.choice("center", center, (True, False))
    _checks.instance("solver", solver, ConjugateGradients | None, "a stopping rule, cn.fitting.ConjugateGradients()")
    _check_device(device)
    geometry = copy.deepcopy(geometry)  # the plan keeps its mask or points when the caller changes them
    is_whole = geometry.is_whole_lattice
    if prior is None and not is_whole:
        warnings.warn(LEAST_NORM, _checks.CoordnetWarning, stacklevel=2)
    if prior == "auto":
        prior = suited(Setting(geometry, device=device, fourier=not encoding.axis_encoders))
    if prior is None:
        prior = LEAST_SQUARES if is_whole and encoding.axis_encoders else NO_PENALTY
    if follows_scales(encoding) and not as_prior(prior).follows_scales:
        expected = f"{HELD}: gradients flow to scales through least squares on a whole lattice alone"
        raise _checks.wrong("encoding", expected, f"learnable scales and prior={prior!r}")
    options: Any = {"solver": solver, "center": center, "progress": progress, "dtype": dtype, "device": device}
    options["assumed"] = "none" if prior in (LEAST_SQUARES, NO_PENALTY) else repr(prior)
    return as_prior(prior).plan(encoding, geometry, **options)


def _check_device(device: torch.device | str) -> None:
    """Refuse a device on which nothing can be computed with a ``ValueError``."""
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError):  # PyTorch has each of them for another reason
        raise _checks.wrong("device", "a device that is present", repr(device)) from None


def fit_closed_form(
    encoding: Encoding, samples: Samples, prior: Prior | Literal["auto"] | None = "auto", **options: Any
) -> Reconstruction:
    """Fit a linear head on a complex encoding to samples in closed form; see ``plan`` for the options.

    A Fourier encoding, which needs equally spaced nodes, is fitted to samples at unequal coordinates by blending, as
    scattered points are. Where the prior learns from samples, groups of channels that do not tell of each other
    (``channel_groups``) are fitted one by one.
    """
    if not hasattr(samples, "geometry"):
        raise _checks.wrong("samples", "those of cn.sample(signal, pattern)", type(samples).__name__)

    def chosen(part: Samples) -> Prior | None:
        return choose_prior(part, fourier=not getattr(encoding, "axis_encoders", True)) if prior == "auto" else prior

    assumed = chosen(samples)
    if assumed is None or not as_prior(assumed).learns:
        return _fit(encoding, samples, assumed, **options)
    return fit_by_channel(
        samples, lambda part: _fit(encoding, part, assumed if part is samples else chosen(part), **options)
    )


def _fit(encoding: Encoding, samples: Samples, prior: Prior | None, **options: Any) -> Reconstruction:
    geometry = samples.geometry
    if not getattr(encoding, "axis_encoders", True):  # Fourier's, whose nodes are equally spaced
        samples = samples.on_even_nodes()
    values = samples.values
    options = {"dtype": values.dtype, "device": values.device, **options}
    made = plan(encoding, samples.geometry, prior, **options)
    quiet = {**options, "progress": False}
    samples = samples.detached()
    plan_of = partial(plan, encoding, samples.geometry, **quiet)
    draw = partial(_deviations, plan_of, prior, samples.values)

    def recipe(report: FitReport) -> Recipe:
        refit = partial(_refit, encoding, prior=prior and prior.settled(report), **quiet)
        return Recipe(samples, refit, draw, progress=options.get("progress", False))

    return made.fit(values, lattice=geometry.lattice, uncertainty=recipe)


def _refit(encoding: Encoding, samples: Samples, **options: Any) -> Reconstruction:
    """Fit a part of the samples, without the warnings that the fit to all of them gave or that its choice spares."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", _checks.CoordnetWarning)
        return fit_closed_form(encoding, samples, **options)


def _deviations(
    plan_of: Callable[[Prior | None], Plan], prior: Prior | None, values: Tensor, *drawing: Any
) -> Reconstruction:
    """Draw deviations under a prior, or under the stationary one around which a local prior works."""
    return deviations(plan_of(prior and prior.stationary), values, *drawing)
