"""The methods of the experiments: from samples to an estimate of the signal, with what it took."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from coordnet.analysis import stable_rank
from coordnet.bench.protocols import rivals
from coordnet.bench.protocols.models import make_encoding
from coordnet.encodings import ComplexEncoding, DenseEncoding, Encoding
from coordnet.fit.closed_form import fit_closed_form
from coordnet.fit.gradient import fit_gradient
from coordnet.fit.tuning import tune_smoothness
from coordnet.metrics.stopwatch import once, timed
from coordnet.networks.heads import MLP, Linear
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import Reconstruction
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.smoothness import Smoothness
from coordnet.restore.denoise import denoise
from coordnet.sampling.axes import Axes, Axis, lattice_points
from coordnet.sampling.samples import Lattice, MaskedLattice, Samples, ScatteredPoints

ENCODED = 2**16  # points that stand for the encoding of a dense one where there are more


@dataclass(frozen=True)
class Case:
    """What a method is given.

    Attributes
    ----------
    samples : Samples
        On the signal's own grid, on the device.
    seed : int
        Of what the method draws.
    epochs : int or None
        Of a gradient fit.
    noise : float
        Standard deviation of the noise on the samples.
    truth : (*grid, channels)
        For methods that are marked as chosen with hindsight.
    """

    samples: Samples
    seed: int
    epochs: int | None
    noise: float
    truth: Tensor


@dataclass(frozen=True)
class Outcome:
    """What a method made.

    Attributes
    ----------
    estimate : (*grid, channels)
        The signal.
    seconds : dict
        ``encode``, ``fit`` and ``render``; what cannot be told apart is in ``fit``, and the others are None.
    parameters : int or None
        Numbers that were fitted.
    notes : dict
        What else there is to tell.
    """

    estimate: Tensor
    seconds: dict[str, float | None]
    parameters: int | None = None
    notes: dict[str, Any] = field(default_factory=dict)


def closed_form(case: Case, settings: Mapping[str, Any]) -> Outcome:
    """A complex encoding with a linear head in closed form; ``fit`` has the factorisation in it."""
    samples = _tied(case.samples, settings)
    encoding, encode = _encoded(samples, settings, case)
    prior, tuning = _prior(settings, encoding, samples)
    fitted, fit = timed(lambda: fit_closed_form(encoding, samples, prior))
    notes = {k: fitted.report[k] for k in ("ranks", "iterations", "rounds", "start") if k in fitted.report}
    if isinstance(prior, Smoothness) and tuning:
        notes["chosen"] = {"power": prior.power, "strength": prior.strength, "seconds": tuning}
    return _rendered(case, encoding, fitted, {"encode": encode, "fit": fit + tuning}, notes)


def gradient(case: Case, settings: Mapping[str, Any]) -> Outcome:
    """A network trained by Adam, full batch; the fit is timed once, after one epoch to warm up."""
    samples = _tied(case.samples, {**settings, "blending": "similarity"})
    encoding, encode = _encoded(samples, settings, case)
    depth = settings["depth"]
    head = MLP(depth, settings["width"]) if depth else Linear()
    generator = torch.Generator().manual_seed(case.seed)
    network = CoordinateNetwork(encoding, head, samples.channels, generator=generator)
    assert case.epochs is not None
    epochs, lr = case.epochs, float(settings["lr"])

    def train(count: int) -> Reconstruction:
        return fit_gradient(network, samples, epochs=count, lr=lr)

    train(1)
    fitted, fit = once(lambda: train(epochs))
    notes = {"loss": fitted.report["loss"], "epochs": fitted.report["epochs"]}
    return _rendered(case, encoding, fitted, {"encode": encode, "fit": fit}, notes)


def baseline(case: Case, settings: Mapping[str, Any]) -> Outcome:
    """A method of another library; where it has a limit it runs in a process of its own, once."""
    made = rivals.Given(case.samples, case.noise, case.truth if settings.get("hindsight") else None)
    if "limit" in settings:
        estimate, seconds = rivals.limited(settings["method"], made, settings["limit"])
    else:
        estimate, seconds = timed(lambda: rivals.RIVALS[settings["method"]](made))
    return Outcome(estimate, {"encode": None, "fit": seconds, "render": None})


def denoised(case: Case, settings: Mapping[str, Any]) -> Outcome:
    """The adaptive Wiener filter of ``denoise``, the noise given or estimated."""
    sigma = case.noise if settings["noise"] == "given" else None
    fitted, fit = timed(lambda: denoise(case.samples.values, sigma).fit)
    return Outcome(fitted.render(), {"encode": None, "fit": fit, "render": None})


KINDS: dict[str, Callable[[Case, Mapping[str, Any]], Outcome]] = {
    "closed form": closed_form,
    "gradient": gradient,
    "baseline": baseline,
    "denoise": denoised,
}


def _tied(samples: Samples, settings: Mapping[str, Any]) -> Samples:
    """The samples as some settings want them.

    ``virtual``: the known samples of a masked lattice as scattered points, tied to a grid of so many times fewer nodes
    an axis. ``masked``: a part of the grid as the whole of it with unknown entries, so that a prior acts on every one.
    """
    geometry = samples.geometry
    if settings.get("masked"):
        assert isinstance(geometry, Lattice)
        known = geometry.known(1)
        values = samples.values.new_zeros(*geometry.grid, samples.channels)
        values[geometry.slices] = samples.values
        return Samples(MaskedLattice(geometry.grid, weights=known.to(values)), values)
    step = settings.get("virtual")
    if not step:
        return samples
    assert isinstance(geometry, MaskedLattice)
    known = geometry.weights[..., 0] > 0
    points = lattice_points(geometry.axes).to(known.device)[known].to(samples.values.dtype)
    grid = tuple(max(2, n // step) for n in samples.grid)
    return Samples(ScatteredPoints(grid, points, blending=settings.get("blending")), samples.values[known])


def _encoded(samples: Samples, settings: Mapping[str, Any], case: Case) -> tuple[Encoding, float]:
    """The encoding, and the seconds that encoding the samples takes."""
    encoding = make_encoding(settings, samples, case.seed, case.samples.grid).to(samples.values.device)
    axes, like = samples.geometry.axes, samples.values
    if isinstance(encoding, ComplexEncoding):
        return encoding, timed(lambda: encoding.matrices(axes, like.dtype, like.device))[1]
    if not isinstance(encoding, DenseEncoding):
        return encoding, 0.0
    points = lattice_points(axes, like.dtype, like.device).flatten(0, -2)
    if isinstance(samples.geometry, MaskedLattice):
        points = points[(samples.geometry.weights > 0).any(-1).flatten()]
    return encoding, timed(lambda: [encoding(part).sum() for part in points.split(ENCODED)])[1]


def _prior(
    settings: Mapping[str, Any], encoding: Encoding, samples: Samples
) -> tuple[Smoothness | Adaptive | None, float]:
    """The prior of some settings, and the seconds that its choice took."""
    prior = settings.get("prior")
    if prior == "adaptive":
        return Adaptive(), 0.0
    if prior == "tuned":
        assert isinstance(encoding, ComplexEncoding)
        chosen, seconds = once(lambda: tune_smoothness(encoding, samples, criterion=settings["criterion"]))
        assert isinstance(chosen.choice, Smoothness)
        return chosen.choice, seconds
    return (None if prior is None else Smoothness(**prior)), 0.0


def _rendered(
    case: Case,
    encoding: Encoding,
    fitted: Reconstruction,
    seconds: dict[str, float | None],
    notes: dict[str, Any],
) -> Outcome:
    axes: Axes = tuple(Axis(n) for n in case.samples.grid)
    with torch.no_grad():
        estimate, render = timed(lambda: fitted.on_axes(axes))
    rank = _stable_rank(encoding, case.samples)
    if rank is not None:
        notes = {**notes, "stable_rank": rank}
    return Outcome(estimate, {**seconds, "render": render}, fitted.network.parameter_count, notes)


def _stable_rank(encoding: Encoding, samples: Samples) -> float | None:
    """Of the encoding matrix of a row of samples."""
    if len(samples.grid) > 1:
        return None
    x = samples.geometry.axes[0].points(device=samples.values.device)
    if isinstance(encoding, ComplexEncoding):
        return stable_rank(encoding.axis_encoders[0](x).detach())
    return stable_rank(encoding(x.unsqueeze(-1)).detach()) if isinstance(encoding, DenseEncoding) else None
