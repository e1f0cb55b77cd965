"""Figures of how large the errors of a reconstruction are expected to be."""

import numpy as np
from jaxtyping import Float
from torch import Tensor

from coordnet.plots.figure import Figure
from coordnet.plots.panels import show_error, strips


def uncertainty_figure(std: Float[Tensor, "*grid channels"], title: str, *, rate: float | None = None) -> Figure:
    """Draw the standard deviation of the errors to expect, in the mean over channels.

    A picture is a map with a bar, a row a line, and a clip a strip of frames with a common scale. A row's axis is in
    seconds if the ``rate`` of its samples is given.
    """
    mean = std.detach().cpu().float().mean(-1)
    if mean.ndim == 2:
        figure = Figure(figsize=(5.6, 5), layout="constrained")
        show_error(figure.subplots(), mean, title)
        return figure
    if mean.ndim > 2:
        top = max(float(np.nanquantile(mean.numpy(), 0.99)), 1e-6)
        return strips([(mean.unsqueeze(-1), title)], span=(0.0, top))[0]
    figure = Figure(figsize=(11, 3), layout="constrained")
    ax = figure.subplots()
    ax.plot(np.arange(len(mean)) / (rate or 1), mean, lw=0.8)
    ax.set(title=title, xlabel="sample" if rate is None else "seconds")
    return figure
