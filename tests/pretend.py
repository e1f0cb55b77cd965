"""A CUDA device for a CPU build of PyTorch: it computes on the CPU, says it is ``cuda:0``, and keeps CUDA's rules.

No operation mixes devices (numbers without axes, and indices, may be on the CPU), a generator on the CPU draws nothing
there, ``numpy()`` refuses, nothing waits for the device while a graph is captured, and what PyTorch lists as not
deterministic raises where that is asked for. Launches of kernels and waits of the host are counted, each operation
that is not a view as one launch. Backward passes are skipped: autograd's engine asks for a real accelerator.
"""

import contextlib
import ctypes
import os
import sys
from unittest import mock

import torch
import torch._dynamo  # imported before the mode is entered, which its import would not survive
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

CUDA = torch.device("cuda:0")
PRODUCTS = {
    "mm": (0, 1),
    "bmm": (0, 1),
    "mv": (0, 1),
    "dot": (0, 1),
    "addmm": (1, 2),
    "baddbmm": (1, 2),
    "addmv": (1, 2),
}
COPIES = ("_to_copy", "copy_", "lift_fresh", "is_same_size", "set_")
INDEXED = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "bincount"}
WAITS |= {"equal", "_linalg_check_errors", "_linalg_eigh", "_linalg_svd", "repeat_interleave"}
UNORDERED = {("median", "dim"), ("kthvalue", "default"), ("histc", "default")}
FREE = {
    "empty",
    "empty_like",
    "new_empty",
    "empty_strided",
    "new_empty_strided",
    "detach",
    "alias",
    "lift_fresh",
    "resize_",
}


class Refused(RuntimeError):
    """CUDA would refuse the operation."""


def leaves(x):
    """The values in the nested tuples and lists of an operation's arguments."""
    return [leaf for y in x for leaf in leaves(y)] if isinstance(x, tuple | list) else [x]


def mapped(change, x):
    """Nested tuples and lists with each of their leaves changed."""
    return type(x)([mapped(change, y) for y in x]) if isinstance(x, tuple | list) else change(x)


def tensors(x):
    return [leaf for leaf in leaves(x) if isinstance(leaf, torch.Tensor)]


def placed(x):
    """A result as the device gives it back."""
    return OnGpu(x) if isinstance(x, torch.Tensor) else x


def inner(x):
    """An argument as the CPU takes it."""
    return x.inner if isinstance(x, OnGpu) else torch.device("cpu") if type(x) is torch.device else x


class OnGpu(torch.Tensor):
    """A tensor that says it is on CUDA; ``inner`` is the CPU tensor with its numbers."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    gpu: "Gpu"  # the one of the innermost ``pretend_cuda``

    @staticmethod
    def __new__(cls, inner):
        made = {"strides": inner.stride(), "storage_offset": inner.storage_offset(), "dtype": inner.dtype}
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, **made, device=CUDA)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return cls.gpu.run(func, args, kwargs or {})

    def __repr__(self, **_):
        return f"OnGpu({self.inner!r})"

    def data_ptr(self):
        return self.inner.data_ptr()

    def untyped_storage(self):
        return self.inner.untyped_storage()

    def tolist(self):
        self.gpu.wait()
        return self.inner.tolist()

    def numpy(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")

    __array__ = numpy

    def __deepcopy__(self, memo):
        copied = OnGpu(self.inner.detach().clone())
        made = torch.nn.Parameter(copied, self.requires_grad) if getattr(self, "_is_param", False) else copied
        return memo.setdefault(id(self), made.requires_grad_(self.requires_grad))


class Gpu(TorchDispatchMode):
    """The counters and the rules of the device."""

    def __init__(self):
        super().__init__()
        self.launches = self.waits = 0
        self.recorded = None  # the operations of the graph that is captured

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if OnGpu not in types and not (kwargs and "device" in kwargs):
            return func(*args, **kwargs or {})
        return self.run(func, args, kwargs or {})

    def wait(self):
        self.waits += 1
        if self.recorded is not None:
            raise Refused("operation not permitted when stream is capturing")

    def run(self, func, args, kwargs):
        flat = leaves((args, *kwargs.values()))
        ours = [x for x in flat if isinstance(x, OnGpu)]
        device = kwargs.get("device")
        there = bool(ours) if device is None else torch.device(device).type == "cuda"
        if not there and not ours:
            return func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        self._check(func, name, args, kwargs, flat, there)
        inner_args, inner_kwargs = mapped(inner, args), {key: mapped(inner, x) for key, x in kwargs.items()}
        if name in ("_conj", "_neg_view"):  # lazy bits of the inner tensor would be lost below this dispatch
            return OnGpu((torch.conj_physical if name == "_conj" else torch.neg)(inner_args[0]))
        out = func(*self._rounded(name.rstrip("_"), inner_args), **inner_kwargs)
        if not func.is_view and name not in FREE:
            self.launches += 1
        if self.recorded is not None and not func.is_view:
            self.recorded.append((func, inner_args, inner_kwargs, tensors(out)))
        here = not there or (name == "copy_" and not isinstance(args[0], OnGpu))
        if here or name in WAITS:
            self.wait()
        owner = {id(x.inner): x for x in ours}
        return out if here else mapped(lambda x: owner[id(x)] if id(x) in owner else placed(x), out)

    def _check(self, func, name, args, kwargs, flat, there):
        overload = func._schema.overload_name
        if torch.are_deterministic_algorithms_enabled() and (name, overload) in UNORDERED:
            raise Refused(f"{func} does not have a deterministic implementation")
        generator = kwargs.get("generator") or next((a for a in args if isinstance(a, torch.Generator)), None)
        if generator is not None and there and generator.device.type == "cpu":
            raise Refused(f"{func}: expected a 'cuda' device type for generator but found 'cpu'")
        if name in COPIES:
            if name != "lift_fresh" and not (there and all(isinstance(x, OnGpu) for x in args[:2])):
                self.waits += name == "_to_copy" and there  # from pageable memory
            return
        foreign = [x for x in flat if isinstance(x, torch.Tensor) and not isinstance(x, OnGpu)]
        if name in INDEXED:  # indices may be on the CPU; masks are looked at
            if not isinstance(args[0], OnGpu):
                raise Refused(
                    f"{name}: indices should be either on cpu or on the same device as the indexed tensor (cpu)"
                )
            if any(m is not None and m.dtype == torch.bool for m in args[1]):
                self.wait()
            foreign = [x for x in args[2:3] if isinstance(x, torch.Tensor) and not isinstance(x, OnGpu)]
        if any(x.ndim for x in foreign):
            raise Refused(f"{func}: expected all tensors to be on the same device, found cuda:0 and cpu")
        if name in PRODUCTS and not flat[0].dtype.is_floating_point and not flat[0].dtype.is_complex:
            raise Refused(f'{func}: "addmm_cuda" not implemented for {flat[0].dtype}')

    @staticmethod
    def _rounded(name, args):
        """Round the factors of float32 products to TF32's 10 bits, if that is allowed."""
        if name not in PRODUCTS or torch.get_float32_matmul_precision() == "highest":
            return args
        at = [i for i in PRODUCTS[name] if args[i].dtype == torch.float32]
        return tuple(tf32(x) if i in at else x for i, x in enumerate(args))


def tf32(x):
    """Round a tensor of float32 to the nearest number with 10 bits of mantissa."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32).reshape(x.shape)


class Names(TorchFunctionMode):
    """Give ``cuda`` its index, and build tensors of Python's numbers on the CPU first."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def named(x):
            is_cuda = type(x) in (str, torch.device) and str(x).partition(":")[0] == "cuda"
            return CUDA if is_cuda else x

        name, args = getattr(func, "__name__", ""), tuple(map(named, args))
        kwargs = {k: named(v) if k == "device" else v for k, v in kwargs.items()} if kwargs else {}
        if name == "cuda" and args and isinstance(args[0], torch.Tensor):
            return args[0].to(CUDA)
        if name in ("tensor", "as_tensor", "asarray") and not isinstance(args[0], torch.Tensor):
            device = torch.device(kwargs.pop("device", None) or "cpu")
            return func(*args, **kwargs).to(device)
        if name == "new_tensor" and isinstance(args[0], OnGpu):
            dtype = kwargs.pop("dtype", None) or args[0].dtype
            return torch.tensor(args[1], dtype=dtype).to(kwargs.pop("device", CUDA))
        if func is torch.device and isinstance(args[0], torch.device):
            return args[0]
        return None if name == "backward" else func(*args, **kwargs)


class Graph:
    """A CUDA graph: the operations between ``capture_begin`` and ``capture_end``, repeated onto the same tensors."""

    def __init__(self):
        self.operations = []

    def replay(self):
        with _disable_current_modes():
            for func, args, kwargs, outs in self.operations:
                for old, x in zip(outs, tensors(func(*args, **kwargs)), strict=True):
                    if old is not x:
                        old.copy_(x)


@contextlib.contextmanager
def captured(graph, **_):
    """Record what runs into a graph."""
    OnGpu.gpu.recorded = graph.operations
    try:
        yield
    finally:
        OnGpu.gpu.recorded = None


@contextlib.contextmanager
def _device_guard():
    """Lend CUDA the CPU's device guard, which does nothing: a CPU build has none, and indexing asks for it."""
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
    registry = (ctypes.c_void_p * 2).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    before, registry[1] = registry[1], registry[0]
    try:
        yield
    finally:
        registry[1] = before


@contextlib.contextmanager
def pretend_cuda():
    """Let ``cuda`` be a device that computes on the CPU and keeps the rules; yields the counters."""
    stream = mock.Mock(cuda_stream=1)
    answers = {
        "_lazy_init": None, "is_available": True, "device_count": 1, "current_device": 0, "is_initialized": True,
        "synchronize": None, "current_stream": stream, "Stream": stream, "get_device_name": "pretended",
        "memory_reserved": 0, "memory_allocated": 0, "max_memory_allocated": 0, "reset_peak_memory_stats": None,
        "get_rng_state": None, "set_rng_state": None, "manual_seed_all": None,
    }  # fmt: skip
    given = {name: lambda *_, value=value, **__: value for name, value in answers.items()}
    given |= {name: lambda *_, **__: contextlib.nullcontext() for name in ("stream", "device")}
    given["is_current_stream_capturing"] = lambda: OnGpu.gpu.recorded is not None
    with contextlib.ExitStack() as stack:
        for name, value in (given | {"CUDAGraph": Graph, "graph": captured}).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        stack.enter_context(mock.patch.object(torch, "_has_compatible_shallow_copy_type", lambda a, b: False))
        OnGpu.gpu = gpu = Gpu()
        stack.enter_context(_device_guard())
        stack.enter_context(gpu)
        stack.enter_context(Names())
        yield gpu


if __name__ == "__main__":  # python -m tests.pretend bench gpu --dry: any command on the pretended device
    from coordnet.cli import main

    with pretend_cuda():
        sys.exit(main())
