"""Fits by gradient descent: the papers' procedure, and the only one for heads that are not linear."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from coordnet import _checks
from coordnet.encodings.blending import Blending
from coordnet.fitting.predictions import Predictions, predictions
from coordnet.linalg.machine import as_generator, is_tracked
from coordnet.metrics.scores import decibels
from coordnet.networks.fit_reports import TrainingReport
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import MEMORY, Reconstruction
from coordnet.sampling.samples import Samples

Callback = Callable[[int, float, float], None]  # receives the epoch, its loss and its PSNR on the fitted samples
Penalty = Callable[[CoordinateNetwork], Tensor]
DIVERGED = "`lr`: expected a learning rate at which the loss stays finite, found a loss of {loss} in epoch {epoch}"


def fit_gradient(
    network: CoordinateNetwork,
    samples: Samples,
    *,
    epochs: int = 2000,
    lr: float = 5e-3,
    weight_decay: float = 1e-8,
    batch: int | None = None,
    memory: int = MEMORY,
    center: bool = True,
    held_out: Samples | None = None,
    patience: int = 50,
    generator: torch.Generator | None = None,
    callback: Callback | None = None,
    penalty: Penalty | None = None,
    progress: bool = False,
) -> Reconstruction:
    """Fit a coordinate network to samples with Adam on the mean squared error.

    Parameters
    ----------
    network : CoordinateNetwork
        The initial network; a copy of it is trained.
    samples : Samples
        The targets. Scattered points with a named ``blending`` are tied to their lattice, which is evaluated by mode
        products (the virtual grid of Zheng et al.), and the result blends its values too; otherwise each point has its
        own encoding.
    epochs, lr, weight_decay
        Passes over the samples, and Adam's learning rate and weight decay, with betas (0.9, 0.999).
    batch : int, optional
        Samples per step (on a lattice with a complex encoding: rows of its first axis per step); all if not given.
    memory : int
        Bytes for the activations and the encoded samples. A step that needs more is split into parts whose gradients
        add up. A virtual grid is always evaluated as a whole.
    center : bool
        Whether each channel's mean is subtracted before the fit and added to its result.
    held_out, patience
        Samples to score on after each epoch. The best epoch is returned, and training stops after ``patience``
        epochs without a better one. This limits, but does not prevent, the overfitting of a trained scale, which
        shrinks until only the samples are fitted: see ``learnable`` in ``FeatureMap``.
    generator : torch.Generator, optional
        The source of randomness for minibatches; by default one with seed 0.
    callback : function, optional
        Called with the epoch, its loss and its PSNR on the fitted samples.
    penalty : function, optional
        A function of the network that is added to the mean squared error, such as ``LearnableFourier.divergence``.
    progress : bool
        Whether to show a bar with the loss and the PSNR.

    Returns
    -------
    Reconstruction
        Its report has the ``loss`` of the last epoch and the number of ``epochs``.

    Raises
    ------
    ValueError
        If the samples are not ``Samples`` or gradients are followed to their values, a number is out of its range, the
        network's channels or dimensions are not the samples', or a blending is named for an encoding that is not
        complex.
    FloatingPointError
        If the loss stops being finite.

    Notes
    -----
    The defaults are the settings of Zheng et al. (ECCV 2022).
    """
    _check(network, samples)
    for name, number in (("epochs", epochs), ("memory", memory), ("batch", 1 if batch is None else batch)):
        _checks.integer(name, number, 1)
    _checks.positive("lr", lr)
    if held_out is not None and not hasattr(held_out, "geometry"):
        raise _checks.wrong("held_out", "samples, or None", type(held_out).__name__)
    blending = Blending.of(samples.geometry) if samples.geometry.blending else network.blending
    network = network.blended(blending).to(samples.values).train()
    offset = samples.mean() if center else samples.values.new_zeros(samples.channels)
    problem = predictions(network, samples, offset, memory)
    batch = batch or len(problem.target)
    optimizer = torch.optim.Adam(network.parameters(), lr=lr, weight_decay=weight_decay)
    generator = as_generator(generator)
    best = _BestState(network, held_out, offset, patience)
    loss, epoch = math.nan, 0
    with tqdm(range(1, epochs + 1), "training", disable=not progress, dynamic_ncols=True) as bar:
        for epoch in bar:
            loss = _epoch(network, problem, optimizer, batch, generator, penalty)
            if not math.isfinite(loss):
                raise FloatingPointError(DIVERGED.format(loss=loss, epoch=epoch))
            quality = decibels(loss)
            bar.set_postfix_str(f"loss {loss:.2e}, fit PSNR {quality:.2f} dB", refresh=False)
            if callback is not None:
                callback(epoch, loss, quality)
            if best.should_stop():
                break
    best.restore()
    network.requires_grad_(False).eval()
    report = TrainingReport(method="Adam", epochs=epoch, loss=loss, learning_rate=lr)
    options = {"footprint": samples.geometry.footprint, "coordinates": samples.geometry.coordinates}
    return Reconstruction(network, offset, samples.grid, report=report, **options)


def _epoch(
    network: CoordinateNetwork,
    problem: Predictions,
    optimizer: torch.optim.Optimizer,
    batch: int,
    generator: torch.Generator,
    penalty: Penalty | None,
) -> float:
    """Pass once over the samples, ``batch`` per step; return the mean squared error."""
    length, at_once = len(problem.target), problem.max_targets
    if batch >= length:
        steps: list[list[Any]] = [[slice(i, min(i + at_once, length)) for i in range(0, length, at_once)]]
    else:
        steps = [list(step.split(at_once)) for step in torch.randperm(length, generator=generator).split(batch)]
    total, count = 0.0, 0.0
    for parts in steps:
        amount = sum(problem.total_weight(part) for part in parts)
        if amount == 0:
            continue
        optimizer.zero_grad(set_to_none=True)
        for part in parts:
            loss = problem.loss(part)
            (loss / amount).backward()
            total += float(loss.detach())
        if penalty is not None:
            penalty(network).backward()
        optimizer.step()
        count += amount
    return total / count


class _BestState:
    """The network's state after the epoch that was best on held-out samples."""

    def __init__(self, network: CoordinateNetwork, held_out: Samples | None, offset: Tensor, patience: int) -> None:
        self.network, self.held_out, self.offset, self.patience = network, held_out, offset, patience
        self.error, self.epochs_since = math.inf, 0
        self.state: dict[str, Tensor] | None = None

    def should_stop(self) -> bool:
        if self.held_out is None:
            return False
        error = self._error(self.held_out)
        self.epochs_since += 1
        if error < self.error:
            self.error, self.epochs_since = error, 0
            self.state = copy.deepcopy(self.network.state_dict())
        return self.epochs_since >= self.patience

    @torch.no_grad()
    def _error(self, samples: Samples) -> float:
        fit = Reconstruction(self.network.eval(), self.offset, samples.grid)
        estimate = samples.geometry.at_samples(fit)
        self.network.train()
        error = (estimate - samples.values).square()
        weights = torch.ones_like(error) if samples.weights is None else samples.weights.to(error).expand_as(error)
        return float((error * weights).sum() / weights.sum())

    def restore(self) -> None:
        if self.state is not None:
            self.network.load_state_dict(self.state)


def _check(network: CoordinateNetwork, samples: Samples) -> None:
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
