"""Comparison of encoders, heads and solvers on one signal, with SciPy's interpolations beside them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coordnet import _checks
from coordnet.comparison.attempts import attempted
from coordnet.comparison.table import Comparison
from coordnet.fitting.fit import combinations
from coordnet.fitting.methods import EncoderChoice
from coordnet.linalg.randomness import as_generator
from coordnet.metrics.scoring import Scoring
from coordnet.networks.heads import Head
from coordnet.priors.base import Prior
from coordnet.sampling.arrays import Array, as_mask, as_signal
from coordnet.sampling.patterns import Pattern, sample


def compare(
    signal: Array,
    pattern: str | Pattern | Array,
    *,
    encoders: Sequence[Any] = (),
    heads: Sequence[Any] = (),
    solvers: Sequence[str] = (),
    priors: Sequence[Prior] = (),
    epochs: int | None = None,
    dimensions: int | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Comparison:
    """Sample a signal, fit the samples by every encoder with every head and solver, and rank the estimates.

    A linear head takes the complex encoding, other heads the simple one; what does not go together is left out and
    named. The prior of closed forms suits the samples; ``combinations`` says what is compared where nothing is given.

    Parameters
    ----------
    signal : NumPy array or tensor, (*grid, channels), or (height, width) for a gray picture
        The signal; integers of 8 and 16 bits are scaled to [0, 1], and NaN is unknown.
    pattern : str, Every, Random, Bayer, Scattered, or a mask
        Where the signal is sampled; see ``cn.sample``.
    encoders : sequence of encoder classes, or of ``cn.fitting.EncoderChoice`` for those with options
        Such as ``[cn.Gaussian, cn.fitting.EncoderChoice(cn.Triangle, {"half_width": "1.5px"})]``.
    heads : sequence of heads
        Such as ``[cn.heads.Linear(), cn.MLP(depth=2, width=64)]``.
    solvers : sequence of "closed-form" or "gradient"
        By default a closed form where there is one.
    priors : sequence of Prior
        Further priors, each fitted with the encoding that suits it, such as ``[cn.Local(), cn.ThinPlate()]``.
    epochs : int, optional
        The number of epochs of gradient fits; what suits the device if not given.
    dimensions : int, optional
        The number of axes of the grid, where the shape does not tell; see ``as_signal``.
    generator : torch.Generator, optional
        The source of everything random, by default one with seed 0. It draws the samples; then every method draws
        from a copy of it, so that its result does not depend on the others.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    Comparison
        A table that a notebook and a terminal show, the best first by held-out PSNR.

    Raises
    ------
    ValueError
        If an argument is wrong, or an encoder does not suit the samples. Any other error of a method stands in the
        table as the reason of its failure.
    """
    choices = [EncoderChoice(e) if isinstance(e, type) else e for e in encoders]
    _check_kind(
        "encoders", choices, EncoderChoice, "classes such as cn.Gaussian, or cn.fitting.EncoderChoice with options"
    )
    _check_kind("heads", heads, Head, "heads such as cn.MLP(depth=2)")
    _check_kind("priors", priors, Prior, "priors such as cn.Adaptive()")
    if epochs is not None:
        _checks.integer("epochs", epochs, 1)
    values, _ = as_signal(signal, dimensions=dimensions)
    generator = as_generator(generator)
    mask = isinstance(pattern, np.ndarray | Tensor)
    samples = sample(values, as_mask(pattern) if mask else pattern, generator=generator)
    methods, left_out = combinations(samples, choices, list(heads), list(solvers), list(priors), progress=progress)
    scoring = Scoring(values.cpu(), samples)
    attempts = attempted(samples, methods, scoring, epochs=epochs, generator=generator, progress=progress)
    described = "mask" if mask else str(pattern)
    return Comparison(scoring, samples, attempts, left_out, described, epochs, generator.initial_seed())


def _check_kind(name: str, given: Sequence[Any], kind: type, expected: str) -> None:
    for one in given:
        if not isinstance(one, kind):
            found = f"the class {one.__name__}" if isinstance(one, type) else repr(one)
            raise _checks.wrong(name, expected, found)
