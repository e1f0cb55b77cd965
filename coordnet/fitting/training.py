"""The steps of a fit by gradient descent, from which ``fit_gradient`` and loops of one's own are made."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from coordnet import _checks
from coordnet.encodings.blending import Blending
from coordnet.linalg.machine import as_generator, is_tracked
from coordnet.networks.fit_reports import FitReport
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import MEMORY, Reconstruction
from coordnet.sampling.samples import Samples

UNIT_SPANS = (1 / 8, 8.0)  # spans of values that are fitted as they are: of pictures, with noise or not, and of sounds
Batch = Tensor | slice  # indices of targets: samples, or rows along the first axis of a lattice
# Points per step on a CPU: MLPs of width 256 and 512 take 0.6 and 0.8 of the time of 57,600 points at once.
POINTS_IN_CACHE = 2**11


class Training:
    """A copy of a network that is fitted to samples by the mean squared error, whose steps are called by a loop.

    ``fit_gradient`` is such a loop. One of your own takes any optimizer and scheduler of PyTorch::

        training = cn.Training(network, samples)
        optimizer = torch.optim.AdamW(training.network.parameters(), lr=5e-3)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 500)
        stopping = cn.EarlyStopping(training, hidden, patience=50)
        for epoch in range(500):
            for batch in training.batches(4096):
                optimizer.zero_grad()
                training.backward(batch)  # or (training.loss(batch) + penalty(training.network)).backward()
                optimizer.step()
            scheduler.step()
            if stopping.after_epoch():
                break
        fit = training.reconstruction()

    Parameters
    ----------
    network : CoordinateNetwork
        The initial network, which stays as it is: ``training.network`` is its copy, in the samples' dtype and on their
        device.
    samples : Samples
        The targets. Scattered points with a named ``blending`` are tied to their lattice, which is evaluated by mode
        products (the virtual grid of Zheng et al.), and the result blends its values too; otherwise each point has its
        own encoding.
    memory : int
        Bytes for the activations and the encoded samples.
    center : bool
        Whether each channel's mean, the ``offset``, is subtracted before the fit and added to its result. The rest is
        then fitted in units of the ``scale``, so that learning rates suit values of any magnitude: 1 for pictures and
        sounds, whose span is within ``UNIT_SPANS``, and the span of others. Losses are in units of its square.

    Raises
    ------
    ValueError
        If the samples are not ``Samples`` or gradients are followed to their values, a number is out of its range, the
        network's channels or dimensions are not the samples', or a blending is named for an encoding that is not
        complex.
    """

    def __init__(
        self, network: CoordinateNetwork, samples: Samples, *, memory: int = MEMORY, center: bool = True
    ) -> None:
        check_trainable(network, samples)
        _checks.integer("memory", memory, 1)
        blending = Blending.of(samples.geometry) if samples.geometry.blending else network.blending
        self.network = network.blended(blending).to(samples.values).train()
        self.samples = samples
        self.offset = samples.mean() if center else samples.values.new_zeros(samples.channels)
        self.scale = _scale_of(samples) if center else 1.0
        self._problem = predictions(self.network, samples, self.offset, self.scale, memory)

    @property
    def size(self) -> int:
        """The number of targets: of samples, or of rows along the first axis of a lattice under a complex encoding."""
        return len(self._problem.target)

    def batches(self, size: int | None = None, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """Yield the targets of each step of an epoch: all at once, or ``size`` of them in a random order.

        Batches without a known sample are left out. The generator is by default that of ``torch.manual_seed``.
        """
        if size is None or _checks.integer("size", size, 1) >= self.size:
            yield slice(0, self.size)
            return
        order = torch.randperm(self.size, generator=as_generator(generator))
        yield from (batch for batch in order.split(size) if self.weight(batch))

    def weight(self, batch: Batch) -> float:
        """Return the number of values in a batch, or the sum of their weights."""
        return self._problem.total_weight(batch)

    def loss(self, batch: Batch = slice(None)) -> Tensor:
        """Return the mean squared error of some targets, all by default, through which gradients flow.

        It is in units of the squared ``scale``.
        """
        return self._problem.loss(batch) / self.weight(batch)

    def backward(self, batch: Batch = slice(None)) -> float:
        """Add the gradient of ``loss``, in parts that fit into ``memory`` each, and return the loss."""
        amount, total = self.weight(batch), 0.0
        for part in self._parts(batch):
            loss = self._problem.loss(part)
            (loss / amount).backward()
            total += float(loss.detach())
        return total / amount

    def _parts(self, batch: Batch) -> list[Batch]:
        """The parts of a batch; a virtual grid is always evaluated as a whole."""
        at_once = self._problem.max_targets
        if isinstance(batch, Tensor):
            return list(batch.split(at_once))
        start, stop, _ = batch.indices(self.size)
        return [slice(i, min(i + at_once, stop)) for i in range(start, stop, at_once)]

    def reconstruction(self, report: FitReport | None = None) -> Reconstruction:
        """Return the present state as a reconstruction, whose network shares nothing with the one in training."""
        network = self.network.scaled(self.scale).requires_grad_(False).eval()
        geometry = self.samples.geometry
        options = {"footprint": geometry.footprint, "lattice": geometry.lattice}
        return Reconstruction(network, self.offset, self.samples.grid, report=report, **options)


class EarlyStopping:
    """The best state of a training by the error at hidden samples, to which it returns when it stops.

    It stops after ``patience`` epochs without a better one. This limits, but does not prevent, the overfitting of a
    trained scale, which shrinks until only the samples are fitted: see ``learnable`` in ``FeatureMap``. The error is in
    units of the training's squared ``scale``. A ``ValueError`` is raised if the hidden samples are no ``Samples``, or
    the patience is no positive integer.
    """

    def __init__(self, training: Training, hidden: Samples, patience: int = 50) -> None:
        if not hasattr(hidden, "geometry"):
            raise _checks.wrong("hidden", "samples", type(hidden).__name__)
        self.training, self.hidden, self.patience = training, hidden, _checks.integer("patience", patience, 1)
        self.error, self.epochs_since = math.inf, 0  # the least mean squared error, and the epochs since
        self._state: dict[str, Tensor] = {}

    def after_epoch(self) -> bool:
        """Look at the error, and return whether to stop; the network is then in its best state."""
        error = self._present_error()
        self.epochs_since += 1
        if error < self.error:
            self.error, self.epochs_since = error, 0
            self._state = copy.deepcopy(self.training.network.state_dict())
        if self.epochs_since < self.patience:
            return False
        self.restore()
        return True

    def restore(self) -> None:
        """Return to the best state, as ``after_epoch`` does where it stops."""
        if self._state:
            self.training.network.load_state_dict(self._state)

    @torch.no_grad()
    def _present_error(self) -> float:
        training, samples = self.training, self.hidden
        fit = Reconstruction(training.network.eval(), training.offset / training.scale, samples.grid)
        error = (samples.geometry.at_samples(fit) - samples.values / training.scale).square()
        training.network.train()
        weights = torch.ones_like(error) if samples.weights is None else samples.weights.to(error).expand_as(error)
        return float((error * weights).sum() / weights.sum())


def _scale_of(samples: Samples) -> float:
    """Return the span of the known values, or 1 where it is about 1 or 0."""
    values, weights = samples.values, samples.weights
    known = values if weights is None else values[(weights > 0).expand_as(values)]
    span = float(known.max()) - float(known.min())
    return 1.0 if span == 0 or UNIT_SPANS[0] <= span <= UNIT_SPANS[1] else span


def check_trainable(network: CoordinateNetwork, samples: Samples) -> None:
    """Refuse samples, or a network that does not suit them, with a ``ValueError``."""
    if not hasattr(samples, "geometry"):
        raise _checks.wrong("samples", "those of one signal, from cn.sample(signal, pattern)", type(samples).__name__)
    if is_tracked(samples.values):
        expected = "`samples.detached()`, or a closed-form fit, through which gradients flow to the values"
        raise _checks.wrong("samples", expected, "values to which gradients are followed")
    if network.channels != samples.channels:
        raise _checks.wrong("network", f"{samples.channels} channels, the samples'", network.channels)
    if network.encoding.dimensions != len(samples.grid):
        raise _checks.wrong("network", f"{len(samples.grid)} dimensions", network.encoding.dimensions)
    samples.geometry.check_trainable(integrates=network.is_separable)
    if samples.geometry.blending and not network.encoding.is_factored:
        raise _checks.wrong("blending", "a complex encoding, or no blending", samples.geometry.blending)


@dataclass(frozen=True)
class Predictions:
    """The targets of a network in training, and the network's estimates."""

    estimate: Callable[[Tensor | slice], Tensor]  # the network's values at some targets
    target: Tensor  # the values minus the offset, in units of the scale
    weights: Tensor | None  # weights of the squared errors, which broadcast against the target
    max_targets: int  # the number of targets whose activations fit into memory

    def loss(self, index: Tensor | slice) -> Tensor:
        """Return the weighted sum of squared errors over some targets."""
        error = (self.estimate(index) - self.target[index]).square()
        return (error if self.weights is None else error * self.weights[index]).sum()

    def total_weight(self, index: Tensor | slice) -> float:
        """Return the sum of the weights of some targets."""
        if self.weights is not None:
            return float(self.weights[index].expand_as(self.target[index]).sum())
        count = len(index) if isinstance(index, Tensor) else len(range(*index.indices(len(self.target))))
        return float(count * self.target[0].numel())


def predictions(network: CoordinateNetwork, samples: Samples, offset: Tensor, scale: float, memory: int) -> Predictions:
    """Return the predictions that suit a network and its samples: of their values minus the offset, over the scale.

    Scattered points are tied to their lattice if the network blends its values. Activations, and samples encoded in
    advance, take at most ``memory`` bytes each.
    """
    values = (samples.values - offset) / scale
    weights = None if samples.weights is None else samples.weights.to(values)
    learns = any(p.requires_grad for p in network.encoding.parameters())
    at_nodes = samples.geometry.closed_form_blend is None
    if network.encoding.is_factored and (network.blending or at_nodes):
        return _on_lattice(network, samples, values, weights, learns, memory)
    return _at_points(network, samples, values, weights, learns, memory)


def _on_lattice(
    network: CoordinateNetwork, samples: Samples, values: Tensor, weights: Tensor | None, learns: bool, memory: int
) -> Predictions:
    """Predict rows along the first axis, or points that are interpolated from the whole lattice at every step."""
    geometry, first = samples.geometry, network.first

    def designs() -> list[Tensor]:
        return network.encoding.matrices(samples.axes, values.dtype, values.device)

    fixed = None if learns else designs()
    if network.blending is None:

        def rows(index: Tensor | slice) -> Tensor:
            along_first, *others = fixed or designs()
            return network.rest(first.on_lattice([along_first[index], *others]))  # type: ignore[operator]

        row = values[0].numel() + values[0, ..., 0].numel() * 2 * sum(network.head.widths)
        return Predictions(rows, values, weights, max(1, memory // (row * values.element_size())))
    where, encoders = geometry.positions(device=values.device), network.encoding.axis_encoders
    operator = network.blending.interpolation(where, encoders, values.dtype, geometry.outside)

    def points(index: Tensor | slice) -> Tensor:
        nodes = first.on_lattice(fixed or designs())  # type: ignore[operator]
        return network.rest(operator(nodes.movedim(-1, 0)).T[index])

    return Predictions(points, values, weights, len(values))


def _at_points(
    network: CoordinateNetwork, samples: Samples, values: Tensor, weights: Tensor | None, learns: bool, memory: int
) -> Predictions:
    """Predict point by point; a dense encoding without trainable numbers is evaluated once if it fits into memory."""
    inputs, values = samples.geometry.positions(values.dtype, values.device), values.flatten(0, -2)
    if weights is not None:
        weights = weights.flatten(0, -2)
        known = (weights > 0).any(-1)
        inputs, values, weights = inputs[known], values[known], weights[known]
    small = len(inputs) * network.encoding.shape[0] * values.element_size() <= memory
    encoded = small and not (learns or network.encoding.is_factored)
    if encoded:
        with torch.no_grad():
            inputs = network.encoding(inputs)

    def estimate(index: Tensor | slice) -> Tensor:
        return network.rest(network.first(inputs[index])) if encoded else network(inputs[index])

    floats = network.floats_per_point + 2 * sum(network.head.widths)
    count = max(1, memory // (floats * values.element_size()))
    at_once = min(count, POINTS_IN_CACHE) if values.device.type == "cpu" else count
    return Predictions(estimate, values, weights, at_once)
