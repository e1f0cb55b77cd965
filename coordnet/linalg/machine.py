"""The machine: reused memory, cores that share work, rounding, randomness, and what a terminal shows of a stage."""

import ctypes
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import hardshrink
from tqdm import tqdm

from coordnet import _checks

LARGE = 2**25  # bytes from which the C library returns freed memory to the system and gets new pages each time
MAX_KEPT = 2**28  # bytes of the largest scratch buffer that is kept after use
# Bytes that are processed at once on a CPU, whose cache they fit: at 64 MiB, 64 images of 256² take a quarter longer.
CHUNK = {"cpu": 2**24}
CHUNK_ON_GPU = 2**30  # bytes that are processed at once on a GPU, where fewer launches are better
NUMPY = {torch.float32: "float32", torch.float64: "float64", torch.uint8: "uint8"}
MAX_THREADS = 4  # each thread needs memory of its own
TAIL = 1e-30  # least fraction of the largest magnitude that is kept; it is above the subnormal numbers of float32

Item = TypeVar("Item")
Result = TypeVar("Result")
_KEPT = threading.local()  # its ``buffers``, by device and stream, so that concurrent work never shares one


def empty(like: Tensor, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> Tensor:
    """Return an uninitialized tensor on the device of another, by default with its dtype.

    Large tensors on a CPU are allocated by NumPy, which asks for huge pages: filling them takes a third of the time.
    """
    dtype = dtype or like.dtype
    if like.device.type != "cpu" or math.prod(shape) * dtype.itemsize < LARGE or dtype not in NUMPY:
        return like.new_empty(shape, dtype=dtype)
    return torch.from_numpy(np.empty(shape, NUMPY[dtype]))


def scratch(like: Tensor, shape: tuple[int, ...], *in_use: Tensor | None) -> Tensor:
    """Return an uninitialized tensor in a kept buffer other than those of the tensors ``in_use``.

    It has the dtype and the device of ``like``. It is valid until this thread's next call without the tensor among
    ``in_use``, which may return the same buffer. Scratch memory must not be returned to a caller of the library.
    """
    size = math.prod(shape) * like.element_size()
    if size > MAX_KEPT or (like.is_cuda and torch.cuda.is_current_stream_capturing()):
        return empty(like, shape)
    stream = torch.cuda.current_stream(like.device).cuda_stream if like.is_cuda else 0
    buffers = vars(_KEPT).setdefault("buffers", {}).setdefault((like.device, stream), [])
    taken = {tensor.untyped_storage().data_ptr() for tensor in in_use if tensor is not None}
    free = (i for i, buffer in enumerate(buffers) if buffer.untyped_storage().data_ptr() not in taken)
    i = next(free, len(buffers))
    if i == len(buffers) or buffers[i].numel() < size:
        with torch.inference_mode(False):
            buffers[i : i + 1] = [empty(like, (size,), torch.uint8)]
    return buffers[i][:size].view(like.dtype).view(shape)


def clear_scratch() -> None:
    """Free the scratch memory of this thread."""
    vars(_KEPT).clear()


def release_freed() -> bool:
    """Give memory that was freed back to the system, which glibc keeps; return whether the C library can."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return False
    return True


def at_once(each: int, device: torch.device, cached: int | None = None) -> int:
    """Return the number of items of some bytes each that are processed at once, at least one.

    On a CPU they fit into ``cached`` bytes, into ``CHUNK`` if not given, and elsewhere into ``CHUNK_ON_GPU``.
    """
    here = CHUNK.get(device.type)
    return max(1, (CHUNK_ON_GPU if here is None else here if cached is None else cached) // max(1, each))


def chunks(values: Tensor, results: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield the slices of signals and channels for which two tensors (signals, channels, …) fit into the cache."""
    signals, channels = values.shape[:2]
    each = math.prod(values.shape[2:]) + math.prod(results.shape[2:])
    count = at_once(each * values.element_size(), values.device)
    signals_at_once, channels_at_once = max(1, count // max(1, channels)), max(1, min(count, channels))
    for i in range(0, signals, signals_at_once):
        for c in range(0, channels, channels_at_once):
            yield slice(i, i + signals_at_once), slice(c, c + channels_at_once)


def bound_by_launches(device: torch.device) -> bool:
    """Whether many small operations take longer to begin than to carry out there, as on a GPU."""
    return device.type != "cpu"


def runs_in_blocks(
    sizes: Int[Tensor, " runs"], length: int
) -> tuple[Int[Tensor, " blocks"], Int[Tensor, "blocks length"], Bool[Tensor, "blocks length"]]:
    """Divide consecutive runs of some sizes into blocks of one length, so that a GPU takes all runs together.

    Return the run of each block, the places in it, and which of them are its own: the last place of a run is repeated.
    """
    here = sizes.device
    counts, starts = (sizes + length - 1) // length, sizes.cumsum(0) - sizes
    run = torch.arange(len(sizes), device=here).repeat_interleave(counts)
    number = torch.arange(len(run), device=here) - (counts.cumsum(0) - counts)[run]
    places = (starts[run] + length * number).unsqueeze(1) + torch.arange(length, device=here)
    last = (starts + sizes - 1)[run].unsqueeze(1)
    return run, places.minimum(last), places <= last


def cholesky(matrices: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch n n"]:
    """Return the factors L of positive definite matrices LLᵀ.

    A failure raises ``torch.linalg.LinAlgError``, but on a GPU, where the check would wait, it is NaN in the factor.
    """
    if may_look(matrices):
        return torch.linalg.cholesky(matrices)
    factor, info = torch.linalg.cholesky_ex(matrices)
    return factor.masked_fill_((info > 0)[..., None, None], torch.nan)


def is_finite(x: Tensor, *, waits: bool = False) -> bool:
    """Whether all numbers are finite; true where they must not be looked at (``may_look``), unless one ``waits``."""
    if x.numel() == 0 or not (may_look(x) or (waits and not is_transformed(x))):
        return True
    extremes = torch.aminmax(torch.view_as_real(x.detach()) if x.is_complex() else x.detach())
    return all(math.isfinite(float(extreme)) for extreme in extremes)


def may_look(x: Tensor) -> bool:
    """Whether the numbers of a tensor can be read without waiting for a GPU, or ending a transform or a compilation."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling() and _has_memory(x)


def is_tracked(x: Tensor) -> bool:
    """Whether autograd or ``torch.func`` follows a tensor, so that results must not be written into buffers."""
    return (torch.is_grad_enabled() and x.requires_grad) or is_transformed(x)


def is_transformed(x: Tensor) -> bool:
    """Whether ``torch.func``, forward-mode autograd or a compiler follows a tensor."""
    return torch.compiler.is_compiling() or forward_ad.unpack_dual(x).tangent is not None or not _has_memory(x)


def _has_memory(x: Tensor) -> bool:
    """Whether a tensor has memory of its own, which those of ``torch.func`` have not."""
    try:
        x.data_ptr()
    except RuntimeError:
        return False
    return True


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], device: torch.device) -> Iterator[Result]:
    """Yield the result of a function for every item, in their order.

    On a CPU as many threads as PyTorch uses, but at most ``MAX_THREADS``, take the items. Each of them, and all of
    PyTorch until the last result, then works on one core. Gradients are recorded as they are in the calling thread.
    """
    count = torch.get_num_threads()
    if count == 1 or device.type != "cpu":
        yield from map(function, items)
        return
    tracked = torch.is_grad_enabled()

    def work(item: Item) -> Result:
        with torch.set_grad_enabled(tracked):
            return function(item)

    torch.set_num_threads(1)  # threads that begin later inherit the number
    try:
        with ThreadPoolExecutor(min(count, MAX_THREADS)) as pool:
            yield from pool.map(work, items)
    finally:
        torch.set_num_threads(count)


@contextmanager
def full_precision() -> Iterator[None]:
    """Round products of float32 as float32 does, whatever ``torch.set_float32_matmul_precision`` says.

    "high" and "medium" let a GPU multiply with 10 or 7 bits of mantissa, as cuDNN's convolutions do by default. Methods
    that compare a residual with its rounding would go wrong. These settings of the process are put back at the end.
    """
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions


def as_generator(generator: torch.Generator | None) -> torch.Generator:
    """Return a generator as it is, or for None that of ``torch.manual_seed``; anything else raises a ``ValueError``."""
    if generator is None:
        return torch.default_generator
    return _checks.instance("generator", generator, torch.Generator, "a torch.Generator")


def lower_median(values: Float[Tensor, "*rest n"]) -> Float[Tensor, " *rest"]:
    """Return the ⌈n/2⌉-th smallest number of the last axis, which ``torch.median`` has too.

    PyTorch's own returns indices beside it, which ``torch.use_deterministic_algorithms`` refuses on a GPU.
    """
    return values.sort(-1).values[..., (values.shape[-1] - 1) // 2]


def without_tails(values: Float[Tensor, "*shape"], peak: float = 1.0) -> Float[Tensor, "*shape"]:
    """Return new values with zeros where they are below ``TAIL`` times a peak.

    Processors may multiply subnormal numbers, which a Gaussian's tails are full of, a hundred times slower than others.
    """
    return hardshrink(values, TAIL * peak)


def stage(name: str, *, shown: bool) -> Any:
    """Return a context that shows the name of a stage, which counts no steps; beside a terminal it shows nothing."""
    return tqdm(desc=name, bar_format="{desc} …", leave=False, disable=None if shown else True)
