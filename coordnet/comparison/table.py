"""Comparison of encoders, heads and solvers on one signal: a table that shows itself, a figure, a page."""

import base64
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import imageio.v3 as iio
import numpy as np
import torch
from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure
from torch import Tensor

from coordnet import _checks
from coordnet.comparison.attempts import Attempt, attempted, combinations
from coordnet.fitting.fit import EncoderChoice, head_label
from coordnet.linalg.machine import as_generator
from coordnet.metrics.scores import Scoring
from coordnet.networks.heads import Head
from coordnet.plots.comparison import Shown, comparison_figure, page_pictures
from coordnet.priors.base import Prior
from coordnet.sampling.arrays import Array, as_mask, as_signal
from coordnet.sampling.patterns import Pattern, sample
from coordnet.sampling.samples import Samples

PSNR = {"held_out": "held-out PSNR", "fitted": "PSNR at the samples"}


class Cell(NamedTuple):
    """A number of the table as templates show it."""

    number: int | float | None
    text: str
    is_best: bool


class Column(NamedTuple):
    """A number of every attempt that has not failed; None where it has none."""

    title: str
    unit: str
    number: Callable[[Attempt], int | float | None]
    form: Callable[[float], str]
    marks_best: bool = False  # whether the largest number is printed in bold

    def text(self, number: int | float | None) -> str:
        """A number as it is printed, with its unit."""
        if number is None:
            return "–"
        return "exact" if number == math.inf else f"{self.form(number)} {self.unit}".rstrip()

    def cells(self, attempts: Sequence[Attempt]) -> list[Cell]:
        """The cells of this column; the best are those that read like the largest number."""
        numbers = [self.number(a) for a in attempts]
        best = max((n for n in numbers if n is not None), default=None)
        bold = self.text(best) if self.marks_best and best is not None else None
        return [Cell(n, self.text(n), self.text(n) == bold) for n in numbers]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Attempts at one signal, the best first by held-out PSNR, or by that at the samples where nothing is held out."""

    scoring: Scoring
    samples: Samples
    attempts: list[Attempt]
    left_out: dict[str, str]  # the reason for every combination that was left out
    pattern: str  # how the signal was sampled
    epochs: int | None  # epochs of gradient fits, where they were given
    seed: int
    name: str = "signal"
    rate: float | None = None  # samples of a sound in a second, for the axis of figures

    @property
    def estimates(self) -> dict[str, Tensor]:
        """The estimates by label, the best first, without failures."""
        return {a.name: a.estimate for a in self.attempts if a.estimate is not None}

    @property
    def known(self) -> float:
        """The share of the signal's entries that were sampled."""
        return float(self.scoring.known.double().mean())

    @property
    def heading(self) -> str:
        """The name, the shape and the sampling of the signal."""
        shape = "×".join(map(str, self.scoring.signal.shape))
        known = f"{100 * self.known:.3g} % known" if self.known > 0 else "no pixel known by itself"
        return f"{self.name} {shape}, {self.pattern} ({known})"

    @cached_property
    def columns(self) -> list[Column]:
        """The columns of the table, after that of the names."""
        by = self.scoring.ranked_by
        return [
            Column(PSNR[by], "dB", lambda a: a.score(by), "{:.2f}".format, marks_best=True),
            Column("SSIM", "", lambda a: a.scores["ssim"], "{:.3f}".format, marks_best=True),
            Column("fit", "s", lambda a: a.seconds["fit"], _seconds),
            Column("render", "s", lambda a: a.seconds["render"], _seconds),
            Column("parameters", "", lambda a: a.parameters, "{:,}".format),
        ]

    @cached_property
    def rows(self) -> list[tuple[Attempt, list[Cell]]]:
        """Every attempt with a cell for each column; without cells after a failure."""
        done = [a for a in self.attempts if a.estimate is not None]
        lines = zip(*(column.cells(done) for column in self.columns), strict=True)
        cells = {a.name: list(line) for a, line in zip(done, lines, strict=True)}
        return [(a, cells.get(a.name, [])) for a in self.attempts]

    @property
    def notes(self) -> list[str]:
        """A line for each warning of an attempt, then one for each reason why combinations were left out."""
        names: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            names.setdefault(reason, []).append(name)
        warned = [f"{a.name}: {warning}" for a in self.attempts for warning in a.warnings]
        return warned + [f"left out: {'; '.join(these)} ({reason})" for reason, these in names.items()]

    def figure(self) -> Figure:
        """Draw every estimate's detail where they differ most, and its errors on one scale."""
        titles = {a.name: cells[0].text for a, cells in self.rows if cells}
        return comparison_figure(self._shown, titles=titles, name=self.name)

    def save_html(self, path: str | Path) -> None:
        """Write a page that needs nothing beside it: the table, which sorts, and a slider for every estimate."""
        pictures = {name: _inlined(pixels) for name, pixels in page_pictures(self._shown).items()}
        Path(path).write_text(_rendered("page.html", table=self, pictures=pictures), encoding="utf-8")

    def to_pandas(self) -> Any:
        """Return the table as a ``pandas.DataFrame``, with what each method is made of; pandas must be installed."""
        from pandas import DataFrame

        lines = []
        for attempt, cells in self.rows:
            numbers = [cell.number for cell in cells] or [None] * len(self.columns)
            names = (f"{c.title} ({c.unit})" if c.unit else c.title for c in self.columns)
            values = dict(zip(names, numbers, strict=True))
            made_of = {}
            if (m := attempt.method) is not None:
                made_of = {"encoder": m.encoder.label, "encoding": m.encoding, "head": head_label(m.head)}
                made_of["solver"] = m.solver
            lines.append({"name": attempt.name, **made_of, **values, "failed": attempt.reason})
        return DataFrame(lines)

    def __repr__(self) -> str:
        width = max(len(a.name) for a in self.attempts) + 2
        widths = [max(len(c.title), 10) + 2 for c in self.columns]
        titles = (f"{c.title:>{w}}" for c, w in zip(self.columns, widths, strict=True))
        lines = [self.heading, "", f"{'method':{width}}{''.join(titles)}"]
        for attempt, cells in self.rows:
            texts = [f"{cell.text:>{w}}" for cell, w in zip(cells, widths, strict=False)]
            lines.append(f"{attempt.name:{width}}{''.join(texts) or f'  failed: {attempt.reason}'}")
        return "\n".join([*lines, *([""] if self.notes else []), *self.notes])

    def _repr_html_(self) -> str:
        return _rendered("table.html", table=self)

    @cached_property
    def _shown(self) -> Shown:
        return Shown(self.scoring.signal, self.samples, self.estimates, self.rate)


def _seconds(seconds: float) -> str:
    return f"{seconds:.4f}" if seconds >= 5e-5 else "< 0.0001"


def _rendered(template: str, **context: Any) -> str:
    """Return the HTML of a template of this folder; texts of the context are escaped."""
    loader = PackageLoader("coordnet", "comparison")
    return Environment(loader=loader, autoescape=True, trim_blocks=True).get_template(template).render(context)


def _inlined(pixels: np.ndarray) -> str:
    """A picture as the address of its own WebP file, lossless, so that a page needs nothing beside it."""
    file = iio.imwrite("<bytes>", pixels, extension=".webp", lossless=True)
    return "data:image/webp;base64," + base64.b64encode(file).decode("ascii")


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
        The source of everything random, by default that of ``torch.manual_seed``. It draws the samples; then every
        method draws from a copy of it, so that its result does not depend on the others.
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
    for name, given, kind, expected in (
        ("encoders", choices, EncoderChoice, "classes such as cn.Gaussian, or cn.fitting.EncoderChoice with options"),
        ("heads", heads, Head, "heads such as cn.MLP(depth=2)"),
        ("priors", priors, Prior, "priors such as cn.Adaptive()"),
    ):
        for one in given:
            if not isinstance(one, kind):
                raise _checks.wrong(name, expected, f"the class {one.__name__}" if isinstance(one, type) else repr(one))
    if epochs is not None:
        _checks.integer("epochs", epochs, 1)
    values, _ = as_signal(signal, dimensions=dimensions)
    generator = as_generator(generator)
    mask = isinstance(pattern, np.ndarray | Tensor)
    samples = sample(values, as_mask(pattern) if mask else pattern, generator=generator)
    methods, left_out = combinations(samples, choices, list(heads), list(solvers), list(priors))
    scoring = Scoring(values.cpu(), samples)
    attempts = attempted(samples, methods, scoring, epochs=epochs, generator=generator, progress=progress)
    described = "mask" if mask else str(pattern)
    return Comparison(scoring, samples, attempts, left_out, described, epochs, generator.initial_seed())
