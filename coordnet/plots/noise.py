"""The figure of a signal's noise: its power at every frequency, and its standard deviation against brightness."""

import torch

from coordnet.plots.panels import Figure
from coordnet.sampling.noise_model import NoiseModel

BLACK_BELOW = -40.0  # dB: power relative to the mean below which the figure is black


def noise_figure(model: NoiseModel) -> Figure:
    """Draw the spectrum of noise, in the mean over channels and the middle of other axes, and its deviation.

    The power is relative to the mean over all frequencies; white noise has no panel of it. The standard deviation is
    drawn for values from 0 to 1, without clipping.
    """
    count = 1 + (model.spectrum is not None)
    figure = Figure(4.6 * count, 4.0)
    axes = figure.subplots(1, count, squeeze=False)[0]
    brightness = torch.linspace(0, 1, 101)
    axes[-1].plot(brightness.numpy(), model.variance(brightness).sqrt().numpy())
    axes[-1].set(xlabel="value", ylabel="standard deviation of the noise", title=str(model).replace(", ", ",\n"))
    axes[-1].set_ylim(bottom=0)
    axes[-1].title.set_fontsize(9)
    if model.spectrum is None:
        return figure
    power = model.spectrum.diagonal(dim1=0, dim2=1).mean(-1)
    while power.ndim > 2:
        power = power[0]
    shifted = 10 * torch.log10(torch.fft.fftshift(power).clamp(min=1e-12))
    axes[0].set_title("power, relative to the mean (dB)", fontsize=9)
    if power.ndim == 1:
        axes[0].plot(torch.linspace(-0.5, 0.5, len(power) + 1)[:-1].numpy(), shifted.numpy())
        axes[0].set_xlabel("cycles per sample")
        return figure
    shown = axes[0].imshow(shifted.clamp(min=BLACK_BELOW).numpy(), extent=(-0.5, 0.5, 0.5, -0.5), cmap="magma")
    axes[0].set(xlabel="cycles per column", ylabel="cycles per row")
    figure.colorbar(shown, ax=axes[0], shrink=0.8)
    return figure
