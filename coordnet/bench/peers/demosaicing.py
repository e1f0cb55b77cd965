"""Demosaicing: bilinear, by the 5×5 filters of Malvar, He and Cutler, and by the package colour-demosaicing.

The filters are those of figure 2 in "High-Quality Linear Interpolation for Demosaicing of Bayer-Patterned Color Images"
(ICASSP 2004).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import conv2d, pad

from coordnet.bench.estimation import Case

Picture = Float[Tensor, "height width 3"]

BILINEAR = torch.tensor([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 4

# In eighths. At a red or a blue pixel: green. At a green pixel: the color of its row; transposed, that of its column.
# At a red pixel: blue, and at a blue pixel: red.
_GREEN = [[0, 0, -1, 0, 0], [0, 0, 2, 0, 0], [-1, 2, 4, 2, -1], [0, 0, 2, 0, 0], [0, 0, -1, 0, 0]]
_OF_ROW = [[0, 0, 0.5, 0, 0], [0, -1, 0, -1, 0], [-1, 4, 5, 4, -1], [0, -1, 0, -1, 0], [0, 0, 0.5, 0, 0]]
_OPPOSITE = [[0, 0, -1.5, 0, 0], [0, 2, 0, 2, 0], [-1.5, 0, 6, 0, -1.5], [0, 2, 0, 2, 0], [0, 0, -1.5, 0, 0]]
GREEN, OF_ROW, OPPOSITE = (torch.tensor(kernel) / 8 for kernel in (_GREEN, _OF_ROW, _OPPOSITE))


def bilinear(mosaic: Picture, known: Bool[Tensor, "height width 3"]) -> Picture:
    """Fill each color by the mean of its two or four nearest known values, at the border of those that exist."""
    weights = known.to(mosaic)
    sums, counts = convolve(mosaic * weights, BILINEAR), convolve(weights, BILINEAR)
    return torch.where(known, mosaic, sums / counts.clamp(min=torch.finfo(mosaic.dtype).tiny))


def malvar(mosaic: Picture, known: Bool[Tensor, "height width 3"]) -> Picture:
    """Correct bilinear values by the Laplacian of the color that is known at the pixel, with fixed gains.

    At the border the mosaic is reflected, which keeps its pattern.
    """
    raw = (mosaic * known).sum(-1, keepdim=True)
    red, green, _ = known.unbind(-1)
    row_of_red = red.any(1, keepdim=True)
    green_of, row_of, column_of, opposite = (
        convolve(raw, kernel)[..., 0] for kernel in (GREEN, OF_ROW, OF_ROW.T, OPPOSITE)
    )
    red_of = torch.where(green, torch.where(row_of_red, row_of, column_of), opposite)
    blue_of = torch.where(green, torch.where(row_of_red, column_of, row_of), opposite)
    return torch.where(known, raw, torch.stack([red_of, green_of, blue_of], -1))


def convolve(image: Float[Tensor, "height width c"], kernel: Float[Tensor, "k k"]) -> Float[Tensor, "height width c"]:
    """Correlate every channel with one kernel; the image is reflected about its outermost pixels."""
    margin = kernel.shape[0] // 2
    planes = pad(image.movedim(-1, 0).unsqueeze(1), (margin,) * 4, mode="reflect")
    return conv2d(planes, kernel.to(image)[None, None])[:, 0].movedim(0, -1)


METHODS = {"bilinear": bilinear, "malvar": malvar}


def demosaiced(case: Case, kind: str) -> Tensor:
    """Demosaic by "bilinear" interpolation, or by the 5×5 filters of Malvar, He and Cutler ("malvar")."""
    assert case.samples.weights is not None
    return METHODS[kind](case.samples.values, case.samples.weights > 0)


def menon(case: Case) -> Tensor:
    """Demosaic by the directional filter of Menon, Andriani and Calvagno (2007), from colour-demosaicing."""
    from colour_demosaicing import demosaicing_CFA_Bayer_Menon2007  # pyright: ignore[reportMissingImports]

    values, weights = case.samples.values, case.samples.weights
    assert weights is not None
    pattern = "".join("RGB"[int(weights[y, x].argmax())] for y in (0, 1) for x in (0, 1))
    mosaic = (values * weights).sum(-1).double().cpu().numpy()
    return torch.from_numpy(demosaicing_CFA_Bayer_Menon2007(mosaic, pattern)).to(values)
