"""A denoiser of pictures as a function of lattice signals: its range, channels, padding, slices and tiles."""

import copy
import itertools
import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from scipy.ndimage import find_objects, label
from torch import Tensor, nn
from torch.nn.functional import pad

from coordnet import _checks
from coordnet.priors.denoiser.parameters import DenoiserParameters
from coordnet.sampling.gap_copies import near

# The symmetries of the square, one after the other: turns by quarters, then those of the mirrored picture. In this
# order a few of them in a row are unlike each other.
SYMMETRIES = (0, 7, 2, 5, 4, 3, 6, 1)
TILE = 1024  # largest side in pixels of a picture that is denoised as a whole
MARGIN = 64  # pixels around a tile that are denoised with it: FFDNet sees 25 pixels far, DRUNet more
# Pixels around gaps that are denoised with them, instead of the whole picture: most pictures with holes then take a
# third of the time. With 32, six scratches of six crops of 256² pixels differ by 0.04 dB at most, by 0.005 dB in the
# mean, and take 5 % longer; with 16 one loses 0.09 dB.
NEARBY = 24
AT_ONCE = 2**20  # pixels that are denoised together

Pictures = Float[Tensor, "pictures channels height width"]


class LatticeDenoiser:
    """A denoiser as a map of lattice signals in [0, 1] with two or three axes, the pictures being along the last two.

    A network is copied, put into ``eval`` and moved to the device; it is called in its own dtype, without gradients.
    For noise from a standard deviation ``rounded_from`` on, its layers multiply bfloat16 on processors that can:
    FFDNet takes half the time then, and its pictures change by 0.002 in the root mean square.
    """

    def __init__(
        self, prior: DenoiserParameters, device: torch.device | str = "cpu", *, rounded_from: float = math.inf
    ) -> None:
        self.prior = prior
        self.f, self.dtype = on_device(prior.f, device)
        on_cpu = torch.device(device).type == "cpu"
        rounds = on_cpu and self.dtype == torch.float32 and multiplies_bfloat16()
        self.rounded_from = rounded_from if rounds else math.inf

    @torch.no_grad()
    def __call__(
        self, x: Float[Tensor, "channels *lattice"], sigma: float, symmetry: int = 0
    ) -> Float[Tensor, "channels *lattice"]:
        """Return a signal without noise of a standard deviation, by the denoiser of the turned or mirrored signal."""
        pictures = x.unsqueeze(0) if x.ndim == 3 else x.movedim(0, 1)
        parts = turned(pictures, symmetry).split(max(1, AT_ONCE // min(pictures[0, 0].numel(), TILE**2)))
        clean = turned_back(torch.cat([self._in_channels(part, sigma) for part in parts]), symmetry)
        return clean[0] if x.ndim == 3 else clean.movedim(1, 0)

    def mean(self, x: Float[Tensor, "channels *lattice"], sigma: float) -> Float[Tensor, "channels *lattice"]:
        """Return the mean of what the denoiser makes of all eight symmetric signals."""
        return torch.stack([self(x, sigma, symmetry) for symmetry in SYMMETRIES]).mean(0)

    def _in_channels(self, x: Pictures, sigma: float) -> Pictures:
        """Denoise pictures of any number of channels: one by one, and gray ones repeated, where they are not colors.

        The mean over C channels that were repeated has less noise than the denoiser is used to, by √C.
        """
        count = self.prior.channels
        if x.shape[1] == count:
            return self._in_tiles(x, sigma)
        gray = x.flatten(0, 1).unsqueeze(1)
        clean = self._in_tiles(gray.expand(-1, count, -1, -1), math.sqrt(count) * sigma)
        return clean.mean(1).reshape(x.shape)

    def _in_tiles(self, x: Pictures, sigma: float) -> Pictures:
        """Denoise large pictures in tiles, each with a margin of its neighbors."""
        windows = [list(_windows(n)) for n in x.shape[2:]]
        if all(len(along) == 1 for along in windows):
            return self._padded(x, sigma)
        result = torch.empty_like(x)
        for (rows, inner_rows), (columns, inner_columns) in itertools.product(*windows):
            clean = self._padded(x[:, :, rows, columns], sigma)
            top, left = inner_rows.start - rows.start, inner_columns.start - columns.start
            height, width = inner_rows.stop - inner_rows.start, inner_columns.stop - inner_columns.start
            result[:, :, inner_rows, inner_columns] = clean[:, :, top : top + height, left : left + width]
        return result

    def _padded(self, x: Pictures, sigma: float) -> Pictures:
        """Denoise pictures whose sides are continued to multiples, in the denoiser's range; check the result."""
        low, high = self.prior.range
        height, width = x.shape[2:]
        missing = [-n % self.prior.multiple for n in (width, height)]
        given = pad(x, (0, missing[0], 0, missing[1]), mode="replicate") * (high - low) + low
        given = given.contiguous() if self.dtype is None else given.to(self.dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=sigma >= self.rounded_from):
            clean = called(self.f, given, (high - low) * sigma)
        if clean.shape != given.shape:
            raise _checks.wrong("f", f"a denoiser that keeps the shape {tuple(given.shape)}", tuple(clean.shape))
        return (clean[..., :height, :width].to(x) - low) / (high - low)


def surroundings(sought: Bool[Tensor, "*slices height width"]) -> list[tuple[slice, slice]]:
    """Return windows of pictures that together hold all sought pixels, and ``NEARBY`` pixels around each of them."""
    pixels = near(sought.reshape(1, -1, *sought.shape[-2:]).any(1), NEARBY, (1, 2))[0]
    found: Any = find_objects(label(pixels.cpu().numpy())[0])  # type: ignore[index]
    sizes = [(rows.stop - rows.start) * (columns.stop - columns.start) for rows, columns in found]
    return found if sum(sizes) < pixels.numel() else [(slice(None), slice(None))]


def on_device(f: Any, device: torch.device | str) -> tuple[Any, torch.dtype | None]:
    """Return a copy of a network on a device, for use without gradients, and its dtype.

    A function is returned as it is, with None, as is a network without tensors but for its modules, since it may hold
    what cannot be copied. A ``ValueError`` is raised for a network that cannot be copied, as one with tensors that
    depend on others, or has no weights yet.
    """
    if not isinstance(f, nn.Module):
        return f, None
    if not [*f.parameters(), *f.buffers()]:
        return _with_own_modules(f).eval(), None
    try:
        network = copy.deepcopy(f).eval().requires_grad_(False).to(device)
    except Exception as error:
        raise _refused("a network that copy.deepcopy copies, or a function that calls it", error) from error
    return network, next((p.dtype for p in network.parameters() if p.is_floating_point()), None)


def _with_own_modules(network: nn.Module) -> nn.Module:
    """Return a copy of a network and of the modules in it, which shares all else."""
    made, modules = copy.copy(network), network._modules.items()
    made._modules = {name: part if part is None else _with_own_modules(part) for name, part in modules}
    return made


def called(f: Any, x: Pictures, *others: float) -> Tensor:
    """Return the result of a function of pictures, on their device; a ``ValueError`` is raised unless it is finite."""
    try:
        made: Any = f(x, *others)
        made = made.to(x.device) if isinstance(made, Tensor) else made
    except Exception as error:  # other arguments, layers of another number of channels, or anything of another
        raise _refused(f"a function of pictures {tuple(x.shape)}{' and σ' if others else ''}", error) from error
    if not isinstance(made, Tensor) or made.is_complex():
        found = made.dtype if isinstance(made, Tensor) else type(made).__name__
        raise _checks.wrong("f", "a function that returns a tensor of real numbers", found)
    if not bool(torch.isfinite(made).all()):
        raise _checks.wrong("f", "a function with finite results", "NaN or infinity")
    return made


def _refused(expected: str, error: Exception) -> ValueError:
    """Return the refusal of a function because of an error from it, of which the first line says enough."""
    return _checks.wrong("f", expected, f"{type(error).__name__} from it ({str(error).partition(chr(10))[0]})")


def multiplies_bfloat16() -> bool:
    """Return whether the processor has instructions for products of bfloat16 numbers."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def turned(x: Float[Tensor, "*pictures height width"], symmetry: int) -> Float[Tensor, "*pictures rows columns"]:
    """Return pictures turned by quarters, and mirrored from the symmetry 4 on."""
    x = x.rot90(symmetry % 4, (-2, -1))
    return x.flip(-1) if symmetry >= 4 else x


def turned_back(x: Float[Tensor, "*pictures height width"], symmetry: int) -> Float[Tensor, "*pictures rows columns"]:
    """Invert ``turned``."""
    x = x.flip(-1) if symmetry >= 4 else x
    return x.rot90(-(symmetry % 4), (-2, -1))


def _windows(length: int) -> list[tuple[slice, slice]]:
    """Return the tiles along an axis: the part that is denoised, and the inner part that is kept of it."""
    count = -(-length // TILE)
    edges = [length * k // count for k in range(count + 1)]
    inner = itertools.pairwise(edges)
    return [(slice(max(0, a - MARGIN), min(length, b + MARGIN)), slice(a, b)) for a, b in inner]
