"""Splines through all values of a lattice, where the errors at hidden values are for them."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from coordnet.encodings.encoders import UnevenSpline
from coordnet.fitting.choice import choose_prior
from coordnet.fitting.defaults import default_encoder
from coordnet.fitting.methods import EncoderChoice, Method
from coordnet.linalg.waiting import stage
from coordnet.plans.hold_out import middle
from coordnet.priors.plates import ThinPlate
from coordnet.sampling.rectilinear import RectilinearLattice
from coordnet.sampling.samples import Samples

GAIN = 10**0.6  # 6 dB: of the squared hidden error, by which splines replace another fit
DEGREES = (1, 3, 5)
LONGEST = 2048  # coordinates of an axis up to which splines are tried: at unequal ones their matrices are dense
STENCIL = (3 / 256, 0.0, -25 / 256, 0.0, 150 / 256, 0.0, 150 / 256, 0.0, -25 / 256, 0.0, 3 / 256)
ROUGH = 0.005  # standard deviations by which a smooth signal differs from polynomials at most; 8-bit pictures are above
DECIDING = 2**12  # values of the middle of a lattice that decide


def splines_instead(samples: Samples, *, progress: bool = False) -> Method | None:
    """Return splines through all values of a whole lattice if they suit samples better than the suited prior.

    Both are fitted at every second coordinate of each axis and at the last. Splines are returned if their squared error
    at the others is lower by 6 dB; a smaller gain may be the noise in the others, which splines do not smooth. Nodes at
    equal distances, which the prior has, are too few where the largest distance of coordinates is many times the
    smallest. On lattices of equal distances, the middle decides, and nothing is fitted unless the signal is smooth
    (``is_smooth``): there the derivatives of splines are right up to the borders, and photographs are left as they are.
    """
    geometry, samples = samples.geometry, samples.detached()
    if geometry.filled_axes is None or geometry.shape != geometry.grid or max(samples.grid) > LONGEST:
        return None
    if geometry.is_even:
        part = _middle(samples)
        if not (is_smooth(part.values) and is_smooth(samples.values)):
            return None
        samples = part
    with stage("choosing between splines", shown=progress):
        return _splines(samples)


def is_smooth(values: Float[Tensor, "*lattice channels"]) -> bool:
    """Whether a signal is the polynomial of degree 5 through six neighbors at distances of ±1, ±3 and ±5, everywhere.

    The largest difference from it along any axis must be below ``ROUGH`` standard deviations; rounding to 8 bits is
    above. Axes of fewer than eleven values are not looked at, and a signal without longer ones is not smooth.
    """
    limit = ROUGH * float(values.flatten(0, -2).std(0, correction=0).max())
    long = [axis for axis in range(values.ndim - 1) if values.shape[axis] >= len(STENCIL)]
    return bool(long) and all(_largest_difference(values, axis) < limit for axis in long)


def _largest_difference(values: Tensor, axis: int) -> float:
    count = values.shape[axis] - len(STENCIL) + 1
    difference = values.narrow(axis, len(STENCIL) // 2, count).clone()
    for start, weight in enumerate(STENCIL):
        if weight:
            difference.sub_(values.narrow(axis, start, count), alpha=weight)
    return float(difference.abs().max())


def _middle(samples: Samples) -> Samples:
    """Return the middle of an even lattice, with an odd length along each axis of three values or more."""
    values = samples.values[middle(samples.grid, DECIDING)]
    values = values[tuple(slice(n if n < 3 else n - (n + 1) % 2) for n in values.shape[:-1])]
    return Samples(RectilinearLattice(*(range(n) for n in values.shape[:-1])), values)


def _splines(samples: Samples) -> Method | None:
    """Return splines of the degree with the least error, if that is 6 dB below that of the suited prior."""
    coordinates = samples.geometry.coordinates or ()
    kept = [sorted({*range(0, n, 2), n - 1}) for n in samples.grid]
    if math.prod(map(len, kept)) == math.prod(samples.grid):
        return None
    part = RectilinearLattice(*(x[k] for x, k in zip(coordinates, kept, strict=True)))
    inner = torch.meshgrid(*map(torch.tensor, kept), indexing="ij")
    shown, hidden = Samples(part, samples.values[inner]), torch.ones(samples.grid, dtype=torch.bool)
    hidden[inner] = False

    def error(method: Method) -> float:
        between = method.fit(shown).at(*coordinates)
        return float((between - samples.values)[hidden].square().mean())

    errors = {degree: error(Method(EncoderChoice(UnevenSpline, {"degree": degree}))) for degree in DEGREES}
    best = min(errors, key=errors.__getitem__)
    if errors[best] * GAIN >= error(_on_nodes(shown)):
        return None
    return Method(EncoderChoice(UnevenSpline, {"degree": best}))


def _on_nodes(samples: Samples) -> Method:
    """Return the method on equal distances: its plates alone at unequal ones, which tell 6 dB as well as a stack."""
    prior = choose_prior(samples) if samples.geometry.is_even else ThinPlate()
    return Method(EncoderChoice(default_encoder(samples.geometry, prior)), prior=prior)
