"""``coordnet bench kinds``: fields of every kind that packages ship, beside the best peer with hindsight.

The default of ``cn.fit``, ``cn.inpaint`` and ``cn.denoise`` is measured, without an option, against the best of the
peers of a cell by the true field, which no user could choose. A field is scaled to [0, 1]; scores are PSNR with data
range 1, unclipped, over the nodes that were not sampled, or over all where there is noise.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from coordnet import _checks
from coordnet.bench.best_peer import COORDNET, BestPeerStudy, described, pairs, scored
from coordnet.bench.field_peers import NEIGHBORS, decibels, peers
from coordnet.bench.field_samplings import SAMPLINGS, Given, Values
from coordnet.bench.package_fields import FIELDS
from coordnet.bench.record_tables import Frame, failures, markdown
from coordnet.bench.records import Cell, Options, Record, Result
from coordnet.comparison.stopwatch import finite
from coordnet.fitting.fit import fit
from coordnet.restore.denoise import denoise
from coordnet.restore.inpaint import inpaint
from coordnet.sampling import Samples

FIELD_SIDES = {1: 1024, 2: 160, 3: 32}  # largest length of a field along each axis, by the number of axes
QUICK_SIDES = {1: 96, 2: 32, 3: 12}
BEHIND = -0.2  # dB: margin below which a cell is listed
SPAN = 3.0  # dB: margin at which the colors of the figure end

FORMS = {"default": "{:.2f}", "its dB": "{:.2f}", "margin": "{:+.2f}", "seconds": "{:.2f}", "its seconds": "{:.2f}"}
KINDS_PREFACE = (
    "PSNR of the default of `cn.fit` (around gaps of `cn.inpaint`, of every node with noise of `cn.denoise`) over that "
    "of the best peer, which the true field chooses, in dB. The peers are SciPy's splines of degree 1, 3 and 5 on "
    f"every second node, and elsewhere `griddata` and `RBFInterpolator` of {NEIGHBORS} neighbors with four kernels; "
    "with noise, smoothing ones whose parameter is chosen with hindsight too. On every node they are SciPy's Gaussian "
    "filter and scikit-image's total variation with hindsight, its wavelets and non-local means told the noise, and "
    "for rows a smoothing spline. Scores are over the nodes that were not sampled, or over all of them with noise. "
    "Points between the nodes are a field's own values between those of its lattice of every second node."
)


def ours(given: Given, device: str) -> Values:
    """Return the default's estimate: ``cn.inpaint`` around gaps, ``cn.denoise`` of every node, and ``cn.fit``."""
    samples = Samples(given.samples.geometry, given.samples.values.to(device))
    if given.mask is not None:
        made = inpaint(torch.from_numpy(given.truth).unsqueeze(-1).to(device), torch.from_numpy(given.mask)).signal
    elif given.is_full:
        made = denoise(samples.values).signal
    else:
        made = fit(samples).render(given.truth.shape, alignment="sample")
    return finite(torch.as_tensor(made))[..., 0].double().numpy()


def measured(field: str, side: int, sampling: str, method: str, cell: Cell) -> Result:
    """Score the default, or every peer, on one field."""
    given = SAMPLINGS[sampling](values_of(field, side))
    each = partial(ours, given, cell.device), peers(given)
    return scored(method, *each, lambda made: decibels(made, given.truth, given.scored))


@lru_cache(maxsize=4)
def values_of(name: str, side: int) -> Values:
    """Return the middle of a field by its name, at most ``side`` nodes along each axis, in float64 from 0 to 1."""
    part = FIELDS[name].middle(side)
    if not np.isfinite(part).all():
        raise ValueError(f"{name}: expected finite values, found others")
    return (part - part.min()) / np.ptp(part)


class Kinds(BestPeerStudy):
    """The command ``coordnet bench kinds``."""

    name = "kinds"

    def stages(self, options: Options, done: Mapping[str, Record]) -> Iterator[Sequence[Cell]]:
        """Yield the cells of the fields whose packages are installed, or of those that are named."""
        chosen = options.named(FIELDS) or list(FIELDS)
        missing = [name for name in chosen if not FIELDS[name].is_installed]
        if missing:
            text = f"left out, since their packages are not installed (pip install 'coordnet[bench]'): {missing}"
            warnings.warn(text, _checks.CoordnetWarning, stacklevel=2)
        chosen = [name for name in chosen if name not in missing]
        if options.quick and not options.only:  # one for each number of axes
            chosen = list({FIELDS[name].dimensions: name for name in reversed(chosen)}.values())
        sides = QUICK_SIDES if options.quick else FIELD_SIDES
        cases = ((name, sides[FIELDS[name].dimensions], sampling) for name in chosen for sampling in SAMPLINGS)
        yield [cell for case in cases for cell in self.of_field(*case, options.device)]

    def of_field(self, name: str, side: int, sampling: str, device: str) -> list[Cell]:
        """Return the cells of the default and of all peers on one field."""
        signal = described("field", name, values_of(name, side))
        return self.cells(sampling, partial(measured, name, side, sampling), device, signal=signal)

    def contents(self, records: list[Record]) -> dict[str, str | Figure]:
        """Return the margins over the best peer as a table, every cell, and a figure."""
        cells = margins(records)
        return {".md": report(cells, records), ".csv": cells.to_csv(index=False), ".png": figure(grid_of(cells))}


def margins(records: Sequence[Record]) -> Frame:
    """Return a row for each field and sampling that both have: the default, the best peer and the margin, in dB."""
    rows, found = [], pairs(records, lambda cell: (cell["signal"]["name"], cell["task"]))
    for (field, sampling), (own, others) in found.items():
        best = max(others["scores"], key=others["scores"].__getitem__)
        shape = "×".join(map(str, own["cell"]["signal"]["grid"]))
        default, peer = own["scores"][COORDNET], others["scores"][best]
        times = own["seconds"][COORDNET], others["seconds"][best]
        rows.append([field, shape, sampling, default, best, peer, default - peer, *times])
    columns = ["field", "grid", "sampling", "default", "best peer", "its dB", "margin", "seconds", "its seconds"]
    return pd.DataFrame(rows, columns=columns)


def grid_of(cells: Frame) -> Frame:
    """Return the margins with a field a row and a sampling a column, in the order of their declarations."""
    table = cells.pivot_table("margin", "field", "sampling", sort=False)
    rows = [name for name in FIELDS if name in table.index]
    return table.reindex(index=rows, columns=[name for name in SAMPLINGS if name in table.columns])


def report(cells: Frame, records: Sequence[Record]) -> str:
    """Return the report in Markdown: the margins, the cells that are behind, the failures, and the fields."""
    grid, margin = grid_of(cells), cells["margin"]
    means = grid.mean().to_frame("mean").T
    table: Frame = pd.concat([grid, means])
    table = table.assign(mean=table.mean(axis=1)).map("{:+.2f}".format).replace("+nan", "")
    sizes = cells.groupby("field")["grid"].first().reindex(grid.index)
    table.insert(0, "field", [*(f"{name}, {size}" for name, size in sizes.items()), "mean"])
    summary = (
        f"{len(cells)} cells: ahead in {(margin > 0).sum()}, mean margin {margin.mean():+.2f} dB, least "
        f"{margin.min():+.2f} dB; more than 0.1 dB behind in {(margin < -0.1).sum()}, more than {-BEHIND} dB in "
        f"{(margin < BEHIND).sum()}. The default took {cells['seconds'].sum():.0f} s in all, the best peers "
        f"{cells['its seconds'].sum():.0f} s."
    )
    behind = cells[margin < BEHIND].sort_values("margin")
    shown = {name: behind[name].map(form.format) for name, form in FORMS.items()}
    parts = ["# Fields of every kind, beside the best peer with hindsight", KINDS_PREFACE, summary, markdown(table)]
    parts += ["![margins](kinds.png)", "## Cells that are behind", markdown(behind.assign(**shown))]
    parts += failures(records, lambda cell: f"{cell['signal']['name']}, {cell['task']}")
    rows = [(name, FIELDS[name].package, FIELDS[name].content, FIELDS[name].licence) for name in grid.index]
    parts += ["## The fields", markdown(pd.DataFrame(rows, columns=["field", "package", "content", "licence"]))]
    return "\n\n".join(parts) + "\n"


def figure(grid: Frame) -> Figure:
    """Return the margins as colors and numbers, a field a row and a sampling a column."""
    page = Figure(figsize=(1.5 + 1.25 * grid.shape[1], 1.4 + 0.26 * grid.shape[0]), layout="constrained")
    ax = page.add_subplot()
    image = ax.imshow(grid.to_numpy(), cmap="RdBu", vmin=-SPAN, vmax=SPAN, aspect="auto")
    ax.set_xticks(range(grid.shape[1]), [name.replace(", ", ",\n") for name in grid.columns])
    ax.set_yticks(range(grid.shape[0]), list(grid.index))
    for (i, j), margin in np.ndenumerate(grid.to_numpy()):
        if np.isfinite(margin):
            color = "white" if abs(margin) > 2 * SPAN / 3 else "black"
            ax.text(j, i, f"{margin:+.2f}", ha="center", va="center", fontsize=8, color=color)
    page.colorbar(image, label="PSNR over the best peer's, dB", shrink=0.5)
    ax.set_title("The default beside the best peer with hindsight")
    return page
