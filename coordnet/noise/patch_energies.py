"""The level of noise in small patches of a picture, told from how differently textures fill them.

The energy of a patch at its highest frequencies is the mean of squares of normal variables, whose variance is that of
the noise, the same in all patches, plus the strength of a texture. The logarithms of strengths are distributed
smoothly: as a mixture of two normal distributions, one of which may stand for places that are nearly flat. Noise cuts
off the low end. So it is told from textures whose spectrum follows no law, and from those that leave no place flat.
"""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import minimize
from scipy.special import polygamma
from torch import Tensor
from torch.nn.functional import avg_pool2d, logsigmoid

from coordnet.linalg.transforms import cosines

SIDE, FREEDOM = 8, 16  # side of patches in pixels, and number of their cosines at the highest frequencies of both axes
INDEPENDENT = 0.3  # share of the patches, which overlap by a half, that count as independent
WHOLE = 0.95  # least variance in a patch relative to that before clipping
COUNTED_SHARE = 0.1  # share of the patches that are not clipped, at least
BINS, NODES = 80, 24  # bins of the energies' logarithms, and strengths that stand for each normal distribution
# Bounds of the mean and of the logarithm of the deviation of each distribution of strengths' logarithms, of the
# logarithm of the ratio of their probabilities, and of that of the noise's variance; the energies are relative to it.
BOUNDS = [*[(-25.0, 25.0), (-2.5, 1.5)] * 2, (-5.0, 5.0), (-20.0, 10.0)]
LOW = 0.1  # quantile of the energies near which noise is looked for
# Logarithms of the variance, relative to this quantile, from which the likeliest is looked for.
FIRST_STEPS = (-3.0, -0.2)
# Ratio of the variance of the energies' logarithms to that of noise up to which all patches are alike, and nothing
# tells noise from texture: random fields have 1.0 to 1.2, photographs with noise of 0.02 1.8 to 9.
SAME_TEXTURE = 1.4

Energies = Float[Tensor, " patches"]


def patch_energies(
    picture: Float[Tensor, "height width channels"],
    variance: Float[Tensor, "height width channels"],
    rotation: Float[Tensor, "channels rotated"],
) -> list[Energies]:
    """Return the energies of patches in each rotated channel, relative to white noise of some variance.

    The variance is relative to that before clipping. Patches that were clipped do not count, and neither does a channel
    in which most were.
    """
    if min(picture.shape[:2]) < SIDE:
        return []
    hop, channels = SIDE // 2, (picture @ rotation.to(picture)).cpu().double().movedim(-1, 0)
    patches = channels.unfold(1, SIDE, hop).unfold(2, SIDE, hop).flatten(1, 2)
    energy = cosines(patches, 2)[..., hop:, hop:].square().mean((2, 3))
    expected = avg_pool2d((variance @ rotation.square().to(variance)).cpu().double().movedim(-1, 0), SIDE, hop)
    parts = [(own / mean)[mean > WHOLE] for own, mean in zip(energy, expected.flatten(1), strict=True)]
    return [part for part in parts if len(part) > COUNTED_SHARE * energy.shape[1]]


def are_alike(energy: Energies) -> bool:
    """Return whether the energies of patches differ no more than those of a texture that is the same everywhere."""
    return float(energy.clamp(min=1e-12).log().var()) < SAME_TEXTURE * float(polygamma(1, FREEDOM / 2))


@torch.inference_mode(mode=False)  # the likelihood has a gradient wherever this is called
@torch.enable_grad()
def likeliest_noise(energy: Energies) -> tuple[float, float, float]:
    """Return the likeliest variance of noise beside textures, and how much likelier it is than 1 and than no noise.

    Energies and variances are relative to an estimate of the noise's, and the gains are in log-likelihood.
    """
    log = energy.clamp(min=1e-12).log().numpy()
    counts, edges = np.histogram(log, BINS)
    seen, weight = counts > 0, torch.from_numpy(INDEPENDENT * counts[counts > 0])
    bins, low = torch.from_numpy((edges[1:] + edges[:-1])[seen] / 2), float(np.quantile(log, LOW))

    def unlikelihood(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        p = torch.tensor(parameters, requires_grad=True)
        value = (p[1].square() + p[3].square()) / 2 - (weight * _log_density(bins, p)).sum()
        (slope,) = torch.autograd.grad(value, p)
        return float(value.detach()), slope.numpy()

    def fit(start: list[float], last: tuple[float, float]) -> Any:
        return minimize(unlikelihood, start, jac=True, method="L-BFGS-B", bounds=[*BOUNDS[:-1], last])

    start = [float(np.median(log)), 0.0, low, 0.0, 0.0]
    best = min((fit([*start, low + step], BOUNDS[-1]) for step in FIRST_STEPS), key=lambda found: found.fun)
    starts = start, list(best.x[:-1])
    one, none = (min(fit([*first, v], (v, v)).fun for first in starts) - best.fun for v in (0.0, BOUNDS[-1][0]))
    return math.exp(best.x[-1]), one, none


def _log_density(log: Float[Tensor, " bins"], p: Float[Tensor, "6"]) -> Float[Tensor, " bins"]:
    """Return the logarithm of the density of the logarithms of energies, for parameters as ``BOUNDS`` has them."""
    nodes = torch.special.ndtri((torch.arange(NODES, dtype=torch.float64) + 0.5) / NODES)
    mean = torch.logaddexp(p[5], torch.cat([p[0] + p[1].exp() * nodes, p[2] + p[3].exp() * nodes]))
    share = logsigmoid(torch.stack([p[4], -p[4]])).repeat_interleave(NODES)
    z, half = log.unsqueeze(1) - mean, FREEDOM / 2
    return (share + half * (z - z.exp())).logsumexp(1) + half * math.log(half) - math.lgamma(half) - math.log(NODES)
