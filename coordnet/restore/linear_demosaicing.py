"""Demosaicing by linear filters: bilinear, and those of Malvar, He and Cutler."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import conv2d, pad

# The filters of figure 2 in Malvar, He and Cutler, "High-Quality Linear Interpolation for Demosaicing of
# Bayer-Patterned Color Images" (2004), in eighths: green at a red or a blue pixel; the color of its row at a
# green pixel, transposed that of its column; blue at a red pixel, and red at a blue one.
_GREEN = [[0, 0, -1, 0, 0], [0, 0, 2, 0, 0], [-1, 2, 4, 2, -1], [0, 0, 2, 0, 0], [0, 0, -1, 0, 0]]
_OF_ROW = [[0, 0, 0.5, 0, 0], [0, -1, 0, -1, 0], [-1, 4, 5, 4, -1], [0, -1, 0, -1, 0], [0, 0, 0.5, 0, 0]]
_OPPOSITE = [[0, 0, -1.5, 0, 0], [0, 2, 0, 2, 0], [-1.5, 0, 6, 0, -1.5], [0, 2, 0, 2, 0], [0, 0, -1.5, 0, 0]]
GREEN, OF_ROW, OPPOSITE = (torch.tensor(kernel) / 8 for kernel in (_GREEN, _OF_ROW, _OPPOSITE))

BILINEAR = torch.tensor([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 4

Picture = Float[Tensor, "height width 3"]


def bilinear(mosaic: Picture, known: Bool[Tensor, "height width 3"]) -> Picture:
    """Fill each color by the mean of its two or four nearest known values, at the border of those that exist."""
    weights = known.to(mosaic)
    sums, counts = convolved(mosaic * weights, BILINEAR), convolved(weights, BILINEAR)
    return torch.where(known, mosaic, sums / counts.clamp(min=torch.finfo(mosaic.dtype).tiny))


def malvar(mosaic: Picture, known: Bool[Tensor, "height width 3"]) -> Picture:
    """Correct bilinear values by the Laplacian of the pixel's known color; the mosaic is reflected at its border."""
    raw = (mosaic * known).sum(-1, keepdim=True)
    red, green, _ = known.unbind(-1)
    row_of_red = red.any(1, keepdim=True)
    green_of, row_of, column_of, opposite = (
        convolved(raw, kernel)[..., 0] for kernel in (GREEN, OF_ROW, OF_ROW.T, OPPOSITE)
    )
    red_of = torch.where(green, torch.where(row_of_red, row_of, column_of), opposite)
    blue_of = torch.where(green, torch.where(row_of_red, column_of, row_of), opposite)
    return torch.where(known, raw, torch.stack([red_of, green_of, blue_of], -1))


def convolved(image: Float[Tensor, "height width c"], kernel: Float[Tensor, "k k"]) -> Float[Tensor, "height width c"]:
    """Correlate every channel with one kernel; the image is reflected about its outermost pixels."""
    margin = kernel.shape[0] // 2
    planes = pad(image.movedim(-1, 0).unsqueeze(1), (margin,) * 4, mode="reflect")
    return conv2d(planes, kernel.to(image)[None, None])[:, 0].movedim(0, -1)
