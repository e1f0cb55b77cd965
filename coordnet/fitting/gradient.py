"""Fits by gradient descent: the papers' procedure, and the only one for heads that are not linear."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from tqdm import tqdm

from coordnet import _checks
from coordnet._checks import CoordnetWarning
from coordnet.fitting.training import EarlyStopping, Training
from coordnet.linalg.machine import as_generator
from coordnet.metrics.scores import decibels
from coordnet.networks.fit_reports import TrainingReport
from coordnet.networks.network import CoordinateNetwork
from coordnet.networks.reconstruction import MEMORY, Reconstruction
from coordnet.sampling.samples import Samples

# Receives the epoch, its loss and its PSNR on the fitted samples; the training stops where it returns true.
Callback = Callable[[int, float, float], Any]
Penalty = Callable[[CoordinateNetwork], Tensor]
OptimizerOf = Callable[[list[Parameter]], torch.optim.Optimizer]
SchedulerOf = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]
DIVERGED = "`lr`: expected a learning rate at which the loss stays finite, found a loss of {loss} in epoch {epoch}"
EPOCHS = 2000  # default of gradient fits (Zheng et al., ECCV 2022)
LONGEST_TRAINING = 600.0  # seconds that a gradient fit on a processor takes by default at most
# Seconds on one core, forward and backward: measured for MLP, SIREN, WIRE and linear heads, 1,024 to 262,144 points.
PRODUCT = 1e-10  # product of a weight and a feature at one point
FEATURE = 1e-8  # feature or unit at one point
COMPLEX = 3  # times that of a layer whose numbers are complex
TRAINED = 30  # times that of a feature whose encoder is trained: of a hash grid, mostly


@torch.enable_grad()
def fit_gradient(
    network: CoordinateNetwork,
    samples: Samples,
    *,
    epochs: int = 2000,
    lr: float = 5e-3,
    weight_decay: float = 1e-8,
    optimizer: OptimizerOf | None = None,
    scheduler: SchedulerOf | None = None,
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
    """Fit a coordinate network to samples by the mean squared error: a loop over the steps of ``Training``.

    Parameters
    ----------
    network, samples, memory, center
        Those of ``Training``. A step that needs more memory is split into parts whose gradients add up.
    epochs, lr, weight_decay
        Passes over the samples, and Adam's learning rate and weight decay, with betas (0.9, 0.999).
    optimizer : function, optional
        Makes an optimizer of the network's parameters, in place of Adam with ``lr`` and ``weight_decay``:
        ``partial(torch.optim.AdamW, lr=1e-3)``, or ``lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)``.
    scheduler : function, optional
        Makes a scheduler of the optimizer, which steps after each epoch:
        ``partial(torch.optim.lr_scheduler.ExponentialLR, gamma=0.99)``.
    batch : int, optional
        Samples per step (on a lattice with a complex encoding: rows of its first axis per step); all if not given.
    held_out, patience
        Samples to score on after each epoch; see ``EarlyStopping``. The best epoch is returned.
    generator : torch.Generator, optional
        The source of randomness for minibatches; by default that of ``torch.manual_seed``.
    callback : function, optional
        Called with the epoch, its loss and its PSNR on the fitted samples; if what it returns is true, training stops.
    penalty : function, optional
        A function of the network that is added to the mean squared error, such as ``LearnableFourier.divergence``; both
        are in the units of ``Training``.
    progress : bool
        Whether to show a bar with the loss and the PSNR.

    Returns
    -------
    Reconstruction
        Its report has the ``loss`` of the last epoch and the number of ``epochs``.

    Raises
    ------
    ValueError
        If a number is out of its range, or ``Training`` refuses the network or the samples.
    FloatingPointError
        If the loss stops being finite.

    Notes
    -----
    The defaults are the settings of Zheng et al. (ECCV 2022).
    """
    for name, number in (("epochs", epochs), ("batch", 1 if batch is None else batch)):
        _checks.integer(name, number, 1)
    _checks.positive("lr", lr)
    if held_out is not None and not hasattr(held_out, "geometry"):
        raise _checks.wrong("held_out", "samples, or None", type(held_out).__name__)
    training = Training(network, samples, memory=memory, center=center)
    adam = partial(torch.optim.Adam, lr=lr, weight_decay=weight_decay)
    steps = (optimizer or adam)(list(training.network.parameters()))
    rate, schedule = float(steps.param_groups[0]["lr"]), scheduler and scheduler(steps)
    stopping = None if held_out is None else EarlyStopping(training, held_out, patience)
    generator, error, epoch = as_generator(generator), math.nan, 0
    with tqdm(range(1, epochs + 1), "training", disable=not progress, dynamic_ncols=True) as bar:
        for epoch in bar:
            loss = _epoch(training, steps, batch, generator, penalty)
            if not math.isfinite(loss):
                raise FloatingPointError(DIVERGED.format(loss=loss, epoch=epoch))
            if schedule is not None:
                schedule.step()
            quality, error = decibels(loss), loss * training.scale**2
            bar.set_postfix_str(f"loss {error:.2e}, fit PSNR {quality:.2f} dB", refresh=False)
            stop = bool(callback is not None and callback(epoch, error, quality))
            if (stopping is not None and stopping.after_epoch()) or stop:
                break
    if stopping is not None:
        stopping.restore()
    report = TrainingReport(method=type(steps).__name__, epochs=epoch, loss=error, learning_rate=rate)
    return training.reconstruction(report)


def _epoch(
    training: Training,
    optimizer: torch.optim.Optimizer,
    batch: int | None,
    generator: torch.Generator,
    penalty: Penalty | None,
) -> float:
    """Pass once over the samples, ``batch`` per step; return the mean squared error."""
    total, count = 0.0, 0.0
    for step in training.batches(batch, generator):
        amount = training.weight(step)
        optimizer.zero_grad(set_to_none=True)
        total += amount * training.backward(step)
        if penalty is not None:
            penalty(training.network).backward()
        optimizer.step()
        count += amount
    return total / count


def default_epochs(network: CoordinateNetwork, samples: Samples) -> int:
    """The epochs of a gradient fit: ``EPOCHS``, or on a processor no more than take ``LONGEST_TRAINING`` seconds."""
    if samples.values.device.type != "cpu":
        return EPOCHS
    return max(1, min(EPOCHS, int(LONGEST_TRAINING / epoch_seconds(network, samples))))


def epoch_seconds(network: CoordinateNetwork, samples: Samples) -> float:
    """Estimate the seconds that one pass over all samples takes on one core."""
    weights, geometry = samples.weights, samples.geometry
    layers = [*network.head.widths, network.channels]
    features = network.encoding.shape
    blended = geometry.blending is not None
    on_lattice = network.encoding.is_factored and (blended or geometry.closed_form_blend is None)
    points = math.prod(geometry.shape) + (math.prod(geometry.grid) if blended else 0)
    if weights is not None and not on_lattice:
        points = int((weights > 0).any(-1).sum())
    # Mode products on a lattice multiply each axis's features alone, at most as often as there are points.
    products = layers[0] * (sum(features) if on_lattice else math.prod(features))
    products += sum(a * b for a, b in zip(layers, layers[1:], strict=False))
    trained = any(p.requires_grad for p in network.encoding.parameters())
    floats = sum(layers) + (0 if on_lattice else sum(features) * (TRAINED if trained else 1))
    return points * (PRODUCT * products + FEATURE * floats) * (COMPLEX if network.head.complex else 1)


def training_seconds(network: CoordinateNetwork, samples: Samples, epochs: int) -> float:
    """Estimate the seconds of a gradient fit on a processor; on other devices they are not known and count as 0."""
    return epochs * epoch_seconds(network, samples) if samples.values.device.type == "cpu" else 0.0


def warn_if_long(seconds: float) -> None:
    """Say how long training is going to take, if that is more than ``LONGEST_TRAINING``."""
    if seconds > 1.01 * LONGEST_TRAINING:
        long = f"{seconds / 3600:.2g} hours" if seconds > 5400 else f"{seconds / 60:.2g} minutes"
        text = f"training takes about {long} on a processor; fewer epochs take less"
        warnings.warn(text, CoordnetWarning, stacklevel=3)
