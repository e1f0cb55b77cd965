"""The level of white noise on a picture, told from its textures by the energies of windows.

The energies of a window's modes are exponential variables, whose means are the variance of the noise, the same at all
frequencies, plus the power of a texture, which falls with the frequency. The windows are a mixture of textures of
several shapes and strengths. Their probabilities and the noise follow from expectation maximization (Dempster, Laird
and Rubin, "Maximum likelihood from incomplete data via the EM algorithm", 1977).

There is no noise where the flattest windows are more likely of textures alone, whose power falls with the frequency,
however faint they are: noise is a floor that all windows have. On photographs with white noise it is almost never so,
and in clean crops and fields in which noise was found in half of them.

Small patches check this level, as most textures leave some of them flat. The flattest ones have at least the energy of
the noise, which bounds the level. If even these have far more, no place shows the noise, and there is taken to be none.
"""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d

from coordnet.noise.windows import Windows, doubled, expected_energy

LEAST_FREQUENCY = 0.1  # cycles per pixel below which modes do not count: there slopes and edges have most energy
# The power of a texture falls as these powers of the frequency, times exp(-f²/c²), with c in cycles per pixel, where it
# is not sharp. The constants were settled on sixteen pictures and on synthetic textures, and none is delicate.
LAWS = ((1.0, math.inf), (2.0, math.inf), (2.0, 0.35))
DIRECTIONS, ELONGATION = 4, 4.0  # directions of textures, and ratio of the frequencies of equal power along and across
TEXTURE_POWERS = tuple(
    4.0**k for k in range(-2, 5)
)  # mean powers of textures, relative to the first estimate of the noise
# Windows of at most so much energy relative to the noise, or at least this share of all, the flattest ones, show
# whether there is a floor; so many of them are looked at.
FLAT, FLATTEST, COMPARED = 8.0, 0.25, 512
# Powers and strengths of the textures that may explain them alone: fields and reliefs fall with the third power.
POWERS_ALONE, STRENGTHS_ALONE = (1.0, 2.0, 3.0), tuple(2.0**k for k in range(-10, 9))
BARE = 0.5  # probability of windows without texture from which the updates start
UPDATES, UPDATES_OF_ALL = 20, 4  # updates of the mixture, and those after which rare textures are left out
LEAST_NOISE = 1e-6  # variance relative to the first estimate, below which powers of shares are 0 in single precision
RARE = 5e-3  # probability below which a texture is rare
INDEPENDENT = 0.25  # share of the pairs of conjugate modes, in windows that overlap by a half beneath a taper
# Power of the noise's share in the mean energy of a mode by which the mode counts for the level. The likelihood has 2,
# as if the textures' laws were exact.
TRUST = 6
# Largest logarithm of the ratio of the arithmetic to the geometric mean of a window's energies, relative to their
# expected ones, in the median over windows. It is 0.56 of noise, up to 0.76 of photographs with noise of 0.02, and 0.8
# to 1.8 where hatchings, bricks and rings have lines in the spectrum, which follow no law.
MISFIT = 0.8
FEWEST, ENOUGH = 24, 0.1  # least number of windows that are not clipped, and their share of all, that tell the level
UNCLIPPED = 0.3  # least variance in a window relative to that before clipping; on a white ground 0.34 is left
ROUNDS = 2  # times that the noise in windows that were clipped is found from the level, and this from the windows
# A filter that removes slopes and keeps the variance of white noise, and the side in pixels of patches of the result.
LAPLACIAN = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]], dtype=torch.float64) / math.sqrt(20)
FLAT_SIDE = 5
# Quantile of the energies of patches relative to the noise, 0.59 of noise alone. Below ``LEAST`` it lowers the level,
# above ``MOST`` there is no noise: both hold for none of 216 crops with noise of 0.02 to 0.1, and for 6 and 10 of 37
# without noise in which some was found.
LOW, LEAST, MOST = 0.1, 0.55, 1.5
WHOLE = 0.95  # least variance in a patch relative to that before clipping

Energies = Float[Tensor, "windows modes"]


def white_level(
    picture: Float[Tensor, "height width channels"],
    sigma: float,
    variance: Callable[[float], Float[Tensor, "height width channels"]],
) -> float:
    """Return the standard deviation of white noise, from a first estimate ``sigma``.

    The ``variance`` of the noise at every pixel follows from its standard deviation, and is less where values were
    clipped: the energies of each window are relative to it. Windows that are mostly clipped do not count. The estimate
    stays where few others are left, or the windows are no mixture of the textures that ``LAWS`` describe. It is 0 where
    textures alone explain the windows, or leave no patch flat. It is at most
    what the flattest patches have; see ``energy_of_flattest``.
    """
    windows = Windows.of(picture, ends=(1.0, 1.0))
    modes = _one_of_pairs(windows.shape) & (windows.radius > LEAST_FREQUENCY)
    energy = windows.modes[..., modes].abs().square() / windows.seen.sum(1)[modes]
    laws = texture_laws(windows, LAWS)[:, modes].float()
    alone = texture_laws(windows, [(power, math.inf) for power in POWERS_ALONE])[:, modes].float()
    for _ in range(ROUNDS):
        share = expected_energy(variance(sigma), windows.shape) @ windows.rotation.square() / sigma**2
        counted = (share > UNCLIPPED).all(1)
        relative = (energy[counted] / (sigma**2 * share[counted]).unsqueeze(2)).flatten(0, 1).float()
        relative = relative[relative.mean(1) < TEXTURE_POWERS[-1]]
        if len(relative) < FEWEST or int(counted.sum()) < ENOUGH * len(counted):
            factor = 1.0
        else:
            factor = noise_beside_textures(relative, laws, alone)
        sigma *= math.sqrt(factor)
        if factor in (0.0, 1.0) or float(share.min()) > 1 - 1e-6:  # nothing is told, or nothing was clipped
            break
    if sigma == 0:
        return 0.0
    flattest = energy_of_flattest(picture / sigma, variance(sigma) / sigma**2, windows.rotation)
    return 0.0 if factor != 1.0 and flattest > MOST else sigma * math.sqrt(min(flattest / LEAST, 1.0))


def energy_of_flattest(
    picture: Float[Tensor, "height width channels"],
    variance: Float[Tensor, "height width channels"],
    rotation: Float[Tensor, "channels rotated"],
) -> float:
    """Return a low quantile of the energy of small patches, relative to white noise of some variance.

    The energy is the mean square of what the Laplacian leaves, and the variance is relative to that before clipping.
    The result is that of the rotated channel where it is least; patches that were clipped do not count. It is 1 where
    most are, and for pictures without patches.
    """
    if min(picture.shape[:2]) < FLAT_SIDE + len(LAPLACIAN) - 1:
        return 1.0
    energy = _filtered(picture @ rotation.to(picture), LAPLACIAN).square()
    expected = _filtered(variance @ rotation.square().to(variance), LAPLACIAN.square())
    parts = zip(avg_pool2d(energy, FLAT_SIDE, 1), avg_pool2d(expected, FLAT_SIDE, 1), strict=True)
    relative = [(own / mean)[mean > WHOLE] for own, mean in parts]
    return min((float(part.quantile(LOW)) for part in relative if len(part) > ENOUGH * energy[0].numel()), default=1.0)


def _filtered(signal: Float[Tensor, "height width channels"], kernel: Float[Tensor, "3 3"]) -> Tensor:
    """Return the channels of a signal convolved with a symmetric kernel, where it does not reach beyond the border."""
    return conv2d(signal.cpu().double().movedim(-1, 0).unsqueeze(1), kernel[None, None]).squeeze(1)


def texture_laws(windows: Windows, laws: Sequence[tuple[float, float]]) -> Float[Tensor, "laws modes"]:
    """Return the mean energies of windows' modes for textures of each law and direction, relative to white noise.

    A law is the power of the frequency and the cut of ``LAWS``.
    """
    lines = [torch.fft.fftfreq(n, dtype=torch.float64) for n in doubled(windows.shape)]
    y, x = torch.meshgrid(*lines, indexing="ij")
    radius = windows.frequency
    elongated = [radius]
    for angle in (k * math.pi / DIRECTIONS for k in range(DIRECTIONS)):
        along, across = math.cos(angle) * y + math.sin(angle) * x, math.cos(angle) * x - math.sin(angle) * y
        elongated.append(torch.hypot(ELONGATION * along, across).flatten().clamp(min=float(radius.min())))
    powers = [f**-power * torch.exp(-((radius / cut) ** 2)) for power, cut in laws for f in elongated]
    return torch.stack(powers) @ windows.seen.mT / windows.seen.sum(1)


def noise_beside_textures(
    energy: Energies, laws: Float[Tensor, "laws modes"], alone: Float[Tensor, "others modes"]
) -> float:
    """Return the variance of white noise relative to a first estimate, as the energies are.

    It is 1 where textures of some laws beside noise do not explain the energies, and 0 where they do, but the
    flattest windows are more likely of textures of the laws ``alone``.
    """
    strengths = torch.tensor(TEXTURE_POWERS).to(laws)[:, None, None] / laws.mean(1, keepdim=True)
    textures = torch.cat([torch.zeros_like(laws[:1]), (strengths * laws).flatten(0, 1)])
    probability, noise = torch.full_like(textures[:, 0], (1 - BARE) / (len(textures) - 1)), 1.0
    probability[0] = BARE
    for update in range(UPDATES):
        if update >= UPDATES_OF_ALL:
            textures, probability = textures[probability > RARE], probability[probability > RARE]
        mean = noise + textures
        posterior = _densities(energy, mean, probability).softmax(1)
        probability, weight = posterior.mean(0), (noise / mean) ** TRUST
        growth = (posterior * (energy @ weight.mT)).sum() / (posterior.sum(0) @ (weight * mean).sum(1))
        noise = max(noise * float(growth), LEAST_NOISE)
    mean = noise + textures
    if _misfit(energy / (_densities(energy, mean, probability).softmax(1) @ mean)) > MISFIT:
        return 1.0
    return noise if _gain(energy, alone, noise) > 0 else 0.0


def _gain(energy: Energies, laws: Float[Tensor, "laws modes"], noise: float) -> float:
    """Return what noise adds to the log-likelihood of the flattest windows with textures."""
    strength = energy.mean(1)
    energy = energy[strength.argsort()[: max(math.ceil(FLATTEST * len(energy)), int((strength < FLAT * noise).sum()))]]
    energy = energy[:: -(-len(energy) // COMPARED)]
    strengths = torch.tensor(STRENGTHS_ALONE).to(laws)[:, None, None] / laws.mean(1, keepdim=True)
    textures, likelihoods = (strengths * laws).flatten(0, 1), []
    for mean in (textures + noise, textures):
        probability = torch.full_like(mean[:, 0], 1 / len(mean))
        for _ in range(UPDATES // 2):
            densities = _densities(energy, mean, probability)
            probability = densities.softmax(1).mean(0)
        likelihoods.append(float(densities.logsumexp(1).sum()))
    return likelihoods[0] - likelihoods[1]


def _densities(
    energy: Energies, mean: Float[Tensor, "textures modes"], probability: Float[Tensor, " textures"]
) -> Float[Tensor, "windows textures"]:
    """Return the logarithms of the densities of windows that have textures whose modes have some ``mean`` energies."""
    return probability.log() - INDEPENDENT * (energy @ mean.reciprocal().mT + mean.log().sum(1))


def _misfit(relative: Energies) -> float:
    """Return how much energies, relative to their expected ones, differ within a window, in the median over windows."""
    return float((relative.mean(1).log() - relative.clamp(min=1e-12).log().mean(1)).median())


def _one_of_pairs(shape: tuple[int, ...]) -> Bool[Tensor, " modes"]:
    """Return one of each two modes of a real window that are conjugates of each other, whose energies are equal."""
    numbers = torch.arange(math.prod(shape)).reshape(shape)
    return (numbers < numbers.flip(0, 1).roll((1, 1), (0, 1))).flatten()[1:]
