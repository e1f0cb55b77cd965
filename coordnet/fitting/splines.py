"""The method that suits a signal at unequal coordinates, by the errors between every second of them."""

import math

import torch

from coordnet.encodings.encoders import UnevenSpline
from coordnet.fitting.closed_form import suited_prior
from coordnet.fitting.defaults import default_encoder
from coordnet.fitting.methods import EncoderChoice, Method
from coordnet.fitting.plates.choice import GAIN
from coordnet.metrics.stopwatch import elapsed
from coordnet.sampling.rectilinear import RectilinearLattice
from coordnet.sampling.samples import Samples

DEGREES = (1, 3, 5)
LONGEST = 2048  # coordinates of an axis up to which splines are tried: their matrices are dense


def method_at_coordinates(samples: Samples, *, progress: bool = False) -> Method:
    """Return the suited prior on equally spaced nodes, or splines through all values of a whole rectilinear lattice.

    Such nodes are too few where the largest distance of coordinates is many times the smallest. Both are fitted at
    every second coordinate of each axis and at the last. Splines are returned if their squared error at the others is
    lower by 6 dB; a smaller gain may be the noise in the others, which splines do not smooth.
    """
    method = _on_nodes(samples, progress)
    geometry = samples.geometry
    if geometry.is_even or not geometry.is_whole_lattice or max(samples.grid) > LONGEST:
        return method
    with elapsed("choosing between splines", shown=progress):
        return _splines(samples) or method


def _on_nodes(samples: Samples, progress: bool = False) -> Method:
    prior = suited_prior(samples, progress=progress)
    return Method(EncoderChoice(default_encoder(samples.geometry, prior)), prior=prior)


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
