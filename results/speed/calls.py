"""What whole calls take on a device, and how far their results are from the processor's: python calls.py [DEVICE].

Parts of scikit-image's astronaut: 512² of which a quarter or every second sample is known, and the middle 256² with
noise of σ = 0.1, as a mosaic, or under gaps. The shortest of three runs after a first one counts.
"""

import sys

import torch

import coordnet as cn
from coordnet.comparison.stopwatch import measure


def generator():
    """Return a generator with the seed of all draws."""
    return torch.Generator().manual_seed(0)


WHOLE = cn.load("astronaut")
PART = WHOLE[128:384, 128:384]
QUARTER, SECOND = cn.sample(WHOLE, "random:0.25", generator=generator()), cn.sample(WHOLE, "every:2")
MOSAIC = cn.sample(PART, "bayer:RGGB")
NOISY = PART + 0.1 * torch.randn(PART.shape, generator=generator())
KNOWN = torch.rand(PART.shape[:2], generator=generator()) > 0.05


def fitted(samples, prior):
    """Return a call that fits samples on a device and renders them there."""
    return lambda device: cn.fit(cn.Samples(samples.geometry, samples.values.to(device)), prior=prior).render()


CALLS = {
    "a quarter of 512², adaptive": fitted(QUARTER, cn.Adaptive()),
    "a quarter of 512², local": fitted(QUARTER, cn.Local()),
    "a quarter of 512², default": fitted(QUARTER, "auto"),
    "every second sample of 512², local": fitted(SECOND, cn.Local()),
    "a mosaic of 256², default": fitted(MOSAIC, "auto"),
    "noise of a given level, 256²": lambda device: cn.denoise(NOISY.to(device), 0.1).signal,
    "noise, 256²": lambda device: cn.denoise(NOISY.to(device)).signal,
    "a twentieth of 256² missing": lambda device: cn.inpaint(PART.to(device), KNOWN.to(device)).signal,
    "256² enlarged by 2": lambda device: cn.upscale(PART.to(device), 2).signal,
}

if __name__ == "__main__":
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    for name, call in CALLS.items():
        shortest = measure(lambda call=call: call(device), repeats=3).low
        apart = float((call(device).cpu() - call("cpu")).square().mean().sqrt())
        print(f"{name:36} {1e3 * shortest:7.0f} ms, {apart:.0e} from the processor's", flush=True)
