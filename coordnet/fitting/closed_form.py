"""Closed-form fits: the plan for an encoding, a geometry, and what is assumed of the signal."""

import copy
from functools import singledispatch
from typing import Any

import torch

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.fitting.adaptive import AdaptivePlan
from coordnet.fitting.blending import measure
from coordnet.fitting.least_squares import LeastSquares, LeastSquaresPlan
from coordnet.fitting.local import LocalPlan
from coordnet.fitting.local_lattice import LocalLatticePlan
from coordnet.fitting.local_mosaic import LocalMosaicPlan, is_mosaic
from coordnet.fitting.local_noise import LocalNoisePlan
from coordnet.fitting.plan import Plan
from coordnet.fitting.smooth import SmoothLatticePlan, SmoothPlan
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.local import Local
from coordnet.priors.smoothness import Smoothness
from coordnet.sampling.measurements import Measurement
from coordnet.sampling.samples import Geometry, Lattice, Samples

Prior = LeastSquares | Smoothness | Adaptive | Local
NO_PENALTY = Smoothness(power=0.0, strength=0.0)


def plan(
    encoding: Encoding,
    geometry: Geometry,
    prior: Prior | None = None,
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
    geometry : Lattice, MaskedLattice or ScatteredPoints
        Where the values will be; ``samples.geometry``.
    prior : LeastSquares, Smoothness, Adaptive or Local, optional
        The assumption about the signal. By default there is none: a whole lattice is fitted by least squares, and of
        the fits to other samples the one of least norm is taken.
    solver : ConjugateGradients, optional
        When the iterations of fits stop that iterate.
    center : bool
        Whether each channel's mean is subtracted before the fit and added to its result.
    progress : bool
        Whether to show a bar while a fit iterates.
    dtype, device
        Those of the values.

    Returns
    -------
    Plan
        ``plan.fit(values)`` gives a ``Reconstruction``.

    Raises
    ------
    ValueError
        If the encoding has no closed form, or the prior does not suit the geometry.
    """
    if not encoding.is_factored:
        expected = "a ComplexEncoding or FourierEncoding: others have no closed form"
        raise _checks.wrong("encoding", expected, type(encoding).__name__)
    geometry = copy.deepcopy(geometry)  # the plan keeps its mask or points when the caller changes them
    measurement = measure(encoding, geometry, dtype, device)
    if prior is None:
        prior = LeastSquares() if measurement is None else NO_PENALTY
    options: dict[str, Any] = {"center": center, "dtype": dtype, "device": device}
    iteration: dict[str, Any] = {"solver": solver or ConjugateGradients(), "progress": progress}
    return plan_for(prior, encoding, geometry, measurement, options, iteration)


@singledispatch
def plan_for(
    prior: Any,
    encoding: Encoding,
    geometry: Geometry,
    measurement: Measurement | None,
    options: dict[str, Any],
    iteration: dict[str, Any],
) -> Plan:
    """Return the plan for a kind of prior; register one with ``@plan_for.register``.

    The measurement is None where the samples are the whole lattice.
    """
    raise _checks.wrong("prior", "LeastSquares, Smoothness, Adaptive, Local or None", type(prior).__name__)


@plan_for.register
def _(prior: LeastSquares, encoding, geometry, measurement, options, iteration) -> Plan:
    return LeastSquaresPlan(encoding, geometry, prior, **options)


@plan_for.register
def _(prior: Smoothness, encoding, geometry, measurement, options, iteration) -> Plan:
    if measurement is None and prior.loss == "squared":
        return SmoothLatticePlan(encoding, geometry, prior, **options)
    measurement = measurement or _everything(geometry, options)
    return SmoothPlan(encoding, geometry, measurement, prior, **options, **iteration)


@plan_for.register
def _(prior: Adaptive, encoding, geometry, measurement, options, iteration) -> Plan:
    measurement = measurement or _everything(geometry, options)
    return AdaptivePlan(encoding, geometry, measurement, prior, **options, **iteration)


@plan_for.register
def _(prior: Local, encoding, geometry, measurement, options, iteration) -> Plan:
    if type(geometry) is Lattice and geometry.shape != geometry.grid and encoding.signed:
        return LocalLatticePlan(geometry, prior, progress=iteration["progress"], **options)
    measurement = measurement or _everything(geometry, options)
    known = measurement.weights[0] > 0
    if prior.noise and bool(known.all()) and measurement.is_plain_mask and encoding.signed:
        return LocalNoisePlan(encoding, geometry, prior, progress=iteration["progress"], **options)
    if measurement.is_plain_mask and encoding.signed and is_mosaic(known):
        return LocalMosaicPlan(encoding, geometry, prior, known, progress=iteration["progress"], **options)
    return LocalPlan(encoding, geometry, measurement, prior, **options, **iteration)


def _everything(geometry: Geometry, options: dict[str, Any]) -> Measurement:
    """Return a whole lattice as a mask without unknown entries."""
    ones = torch.ones(1, 1, *geometry.shape, dtype=options["dtype"], device=options["device"])
    return Measurement.mask(ones)


def fit_closed_form(encoding: Encoding, samples: Samples, prior: Prior | None = None, **options: Any) -> Reconstruction:
    """Fit a linear head on a complex encoding to samples in closed form; see ``plan`` for the options."""
    values = samples.values
    options = {"dtype": values.dtype, "device": values.device, **options}
    return plan(encoding, samples.geometry, prior, **options).fit(values)
