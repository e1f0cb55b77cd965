"""Work in threads: its order, its errors, and PyTorch's settings during and after it."""

import threading
from pathlib import Path

import pytest
import torch

from coordnet.linalg.machine import MAX_THREADS, in_threads

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def threads():
    """Let PyTorch use several threads, as it does outside of these tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(MAX_THREADS + 2)
    yield
    torch.set_num_threads(before)


def test_results_come_in_order_from_several_threads_of_one_core_each():
    both = threading.Barrier(2, timeout=30)

    def work(item):
        both.wait()  # one thread alone could not pass
        return item, torch.get_num_threads(), threading.get_ident()

    items, cores, threads = zip(*in_threads(work, range(6), CPU), strict=True)
    assert items == tuple(range(6)) and set(cores) == {1} and 2 <= len(set(threads)) <= MAX_THREADS
    assert torch.get_num_threads() == MAX_THREADS + 2


def test_an_error_comes_through_and_gives_the_threads_back():
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda item: 1 // item, [1, 0], CPU))
    assert torch.get_num_threads() == MAX_THREADS + 2


@pytest.mark.parametrize("tracked", [True, False])
def test_gradients_are_recorded_as_in_the_calling_thread(tracked):
    x = torch.ones(1, requires_grad=True)
    with torch.set_grad_enabled(tracked):
        assert [y.requires_grad for y in in_threads(lambda item: item * x, [1, 2], CPU)] == [tracked, tracked]


def test_one_thread_and_other_devices_compute_at_once():
    here = threading.get_ident()
    assert list(in_threads(lambda _: threading.get_ident(), [1, 2], torch.device("meta"))) == [here, here]
    torch.set_num_threads(1)
    assert list(in_threads(lambda _: threading.get_ident(), [1, 2], CPU)) == [here, here]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts the threads that Linux lists")
def test_threads_do_not_multiply_with_those_of_openmp():
    """Every thread computes what OpenMP would share with others, and none of them starts others."""

    def running():
        return len(list(Path("/proc/self/task").iterdir()))

    def work(item):
        x = torch.full((512, 512), float(item + 1))
        torch.linalg.eigh((x @ x).exp().clamp(max=1.0)[:64, :64])
        return running()

    work(0)  # the threads of the calling thread, which stay
    assert max(in_threads(work, range(8), CPU)) <= running() + MAX_THREADS
