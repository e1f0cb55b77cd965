"""Closed-form fits: the plan for an encoding, a geometry and what is assumed of the signal, and how sure a fit is."""

import copy
import warnings
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.fitting.channel_groups import fit_by_channel
from coordnet.fitting.choice import choose_prior, suited
from coordnet.fitting.uncertainty.conformal import Calibration
from coordnet.fitting.uncertainty.folds import SampleTable
from coordnet.fitting.uncertainty.point_blocks import Score, block_score
from coordnet.linalg.conjugate_gradients import ConjugateGradients
from coordnet.linalg.machine import as_generator, full_precision
from coordnet.metrics.scores import decibels
from coordnet.networks.fit_reports import FitReport
from coordnet.networks.heads import Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.plans.plan import Plan, follows_scales
from coordnet.priors.base import Prior, Setting, as_prior
from coordnet.priors.least_squares import HELD, LeastSquares
from coordnet.priors.smoothness import Smoothness
from coordnet.priors.stack import Stack
from coordnet.sampling.arrays import FLOATS
from coordnet.sampling.grids import Lattice
from coordnet.sampling.samples import Geometry, Samples, units_of

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
        one. A plan knows no values; it assumes three channels, no noise, and axes that are alike. ``fit_closed_form``
        and ``fit`` look for noise, axes and groups of channels in the samples, and choose by these too. With None a
        whole lattice is fitted by least squares, and other samples get the interpolation of least norm, with a
        ``CoordnetWarning``.
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
    if not isinstance(geometry, Geometry):
        expected = "a geometry such as cn.sampling.Lattice, or the one of samples"
        raise _checks.wrong("geometry", expected, type(geometry).__name__)
    if not geometry.is_even and not encoding.axis_encoders:
        expected = "a ComplexEncoding, whose axes have matrices, at unequal coordinates (`fit_closed_form` blends)"
        raise _checks.wrong("encoding", expected, type(encoding).__name__)
    _checks.choice("center", center, (True, False))
    _checks.instance("solver", solver, ConjugateGradients | None, "a stopping rule, cn.fitting.ConjugateGradients()")
    _check_device(device)
    geometry = copy.deepcopy(geometry)  # the plan keeps its mask or points when the caller changes them
    is_whole = geometry.filled_axes is not None
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
        samples = samples.on_even_nodes(finer=isinstance(prior, Stack))
        if samples.grid != geometry.grid:
            encoding = FourierEncoding.like(samples)
    values = samples.values
    options = {"dtype": values.dtype, "device": values.device, **options}
    made = plan(encoding, samples.geometry, prior, **options)
    recipe = partial(Recipe, encoding, samples.detached(), prior, options)
    return made.fit(values, lattice=geometry.lattice, uncertainty=recipe)


class Recipe:
    """The samples of a fit and how they were fitted, which tell how sure it is.

    Intervals need six refits at most: one without each of five folds of the samples, and one without two folds, or
    those to halves of a lattice that skips nodes. They are made when they are first asked for, with the numbers that
    the fit's ``report`` says were chosen, and their errors are kept. The methods are those of ``Reconstruction``, for
    signals on its lattice.
    """

    def __init__(
        self, encoding: Encoding, samples: Samples, prior: Prior | None, options: dict[str, Any], report: FitReport
    ) -> None:
        self.encoding, self.samples, self.prior = encoding, samples, prior
        # A mask of every k-th node is no such mask without a part of it, for which other priors may suit.
        skips = isinstance(prior, Stack) and prior.skips
        self.settled: Prior | Literal["auto"] | None = "auto" if skips else prior and prior.settled(report)
        self.progress, self.options = options.get("progress", False), {**options, "progress": False}
        self._calibrations: dict[Any, Calibration] = {}

    def refit(self, samples: Samples) -> Reconstruction:
        """Fit a part of the samples, without the warnings of the fit to all of them or those that its choice spares."""
        on_samples = samples.geometry.is_strided and not getattr(self.encoding, "axis_encoders", True)
        encoding = FourierEncoding.like(samples) if on_samples else self.encoding
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", _checks.CoordnetWarning)
            return fit_closed_form(encoding, samples, self.settled, **self.options)

    def calibration(self, fit: Reconstruction, blocks: Any = None, progress: bool = False) -> Calibration:
        """Return the scale of the fit's errors; see ``SampleTable`` for ``blocks`` and for errors.

        A bar shows the progress of the refits if it is asked for here or was for the fit.
        """
        key = None if blocks is None else tuple(np.atleast_1d(blocks).tolist())
        if key not in self._calibrations:
            table = SampleTable(self.samples, blocks)
            folded = table.folded(self.refit, progress=self.progress or progress)
            nodes = self.samples.geometry
            field = _field(fit) if nodes.grid == fit.lengths else fit.on_axes(nodes.axes)
            self._calibrations[key] = Calibration.of(table, folded, field)
        return self._calibrations[key]

    def std(self, fit: Reconstruction, blocks: Any = None, progress: bool = False) -> Float[Tensor, "*nodes channels"]:
        """Return the standard deviation of the errors at the nodes of the samples."""
        return self._at_nodes(self.calibration(fit, blocks, progress).std, fit)

    def half_width(
        self, fit: Reconstruction, level: float, blocks: Any = None, progress: bool = False
    ) -> Float[Tensor, "*nodes channels"]:
        """Return half of the width of intervals at the nodes of the samples; see ``conformal_quantile`` for errors."""
        if not 0 < _checks.positive("level", level) < 1:
            raise _checks.wrong("level", "a number above 0 and below 1", level)
        return self._at_nodes(self.calibration(fit, blocks, progress).half_width(level), fit)

    def expected_psnr(self, fit: Reconstruction, data_range: float, progress: bool = False) -> float:
        """Return the PSNR to expect where there is no sample, in dB."""
        return decibels(self.calibration(fit, progress=progress).mean_squared_error, data_range)

    def _at_nodes(
        self, numbers: Float[np.ndarray, "nodes channels"], fit: Reconstruction
    ) -> Float[Tensor, "*nodes channels"]:
        return torch.from_numpy(numbers).to(fit.offset).reshape(*self.samples.grid, fit.channels)

    def score(self, fit: Reconstruction, blocks: Any, folds: int, progress: bool = False) -> Score:
        """Return the errors at points that are hidden in blocks; see ``block_score`` for errors."""
        return block_score(self.samples, self.refit, blocks, folds, progress=self.progress or progress)

    def draw(
        self, fit: Reconstruction, count: int, generator: torch.Generator | None
    ) -> Float[Tensor, "draws *grid channels"]:
        """Return the fit plus each of ``count`` deviations from it."""
        _checks.integer("count", count, 1)
        deviations = self._deviations(fit, count, as_generator(generator))
        return fit.render(alignment="sample") + deviations.render(alignment="sample")

    def _deviations(self, fit: Reconstruction, count: int, generator: torch.Generator) -> Reconstruction:
        """Draw a batch of deviations under the prior, or under the stationary one around which a local prior works.

        They are on the fit's device and in its dtype.
        """
        made = plan(self.encoding, self.samples.geometry, self.prior and self.prior.stationary, **self.options)
        values = made.centered(self.samples.values).subtracted()
        units = units_of(values)
        posterior = made.posterior(values / units, fit.learned)
        with full_precision():
            drawn = posterior.deviations(count, generator)
        weight = (float(units) * drawn).flatten(0, 1).to(fit.offset).contiguous()
        own = fit.network
        network = CoordinateNetwork(own.encoding, Linear(), len(weight), weight=weight, blending=own.blending)
        offset = torch.zeros_like(fit.offset).expand(count, -1)
        return Reconstruction(network, offset, fit.lengths, (count,), footprint=fit.footprint, lattice=fit.lattice)


def _field(fit: Reconstruction) -> Float[Tensor, "*grid channels"]:
    """Return a fit on its own lattice, without its drift."""
    lattice = fit.lattice or Lattice(fit.lengths)
    return fit.on_axes(lattice.render_axes(None, "sample", fit.footprint))
