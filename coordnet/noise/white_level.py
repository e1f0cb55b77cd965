"""The level of white noise on a picture, told from its textures by the energies of windows.

The energies of a window's modes are exponential variables, whose means are the variance of the noise, the same at all
frequencies, plus the power of a texture, which falls with the frequency. The windows are a mixture of textures of
several shapes and strengths. Their probabilities and the noise follow from expectation maximization (Dempster, Laird
and Rubin, "Maximum likelihood from incomplete data via the EM algorithm", 1977).

The level is in doubt where the flattest windows are more likely of textures alone, whose power falls with the
frequency, however faint they are, and where no small patch is flat: noise is a floor that all windows have. The
energies of small patches then decide, and check the level elsewhere.
"""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.noise.patch_energies import LOW, are_alike, likeliest_noise, patch_energies
from coordnet.noise.windows import FAINTEST, Windows, doubled, expected_energy, misfit

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
# Low quantile of the energies of patches relative to the noise, 0.58 of noise alone: below ``LEAST`` it lowers the
# level, and above ``MOST`` no place is flat.
LEAST, MOST = 0.5, 1.5
# Logarithm of the ratio of likelihoods beyond which another level is out of the interval of 95 % (Wilks, "The
# large-sample distribution of the likelihood ratio for testing composite hypotheses", 1938).
UNLIKELY = 1.92
# Deviation relative to a level from which on the likeliest of patches does not lower it: on photographs, few of whose
# patches are flat, it is 0.93 to 0.96 of levels of 0.05 and 0.1 that are right.
NEARLY = 0.9
# Ratios of the bound by the values' distribution to a level, and to the values' deviation, up to which the distribution
# has narrow peaks. Where a level is in doubt the former is 0.4 to 1.3 in text, halftones and turned letters with noise,
# and 3.7 and more in textures and random fields without. In those that are nearly white it is 1.6, but the latter 1.1.
PEAKED, NARROW = 2.0, 0.5

Energies = Float[Tensor, "windows modes"]


def white_level(
    picture: Float[Tensor, "height width channels"],
    sigma: float,
    variance: Callable[[float], Float[Tensor, "height width channels"]],
    peak: float = math.inf,
) -> float:
    """Return the standard deviation of white noise, from a first estimate ``sigma``.

    The ``variance`` of the noise at every pixel follows from its standard deviation, and is less where values were
    clipped: the energies of each window are relative to it. Windows that are mostly clipped do not count. The estimate
    stays where few others are left, or the windows are no mixture of the textures that ``LAWS`` describe. Small patches
    check it; see ``_checked``. There is no doubt where the values' distribution has narrow peaks: by it the noise is at
    most ``peak``, hardly more than the estimate.
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
            factor, is_doubtful = 1.0, False
        else:
            factor, is_doubtful = noise_beside_textures(relative, laws, alone)
        sigma *= math.sqrt(factor)
        if factor == 1.0 or float(share.min()) > 1 - 1e-6:  # nothing is told, or nothing was clipped
            break
    energies = patch_energies(picture / sigma, variance(sigma) / sigma**2, windows.rotation)
    flattest = min((float(own.quantile(LOW)) for own in energies), default=1.0)
    is_peaked = peak <= min(PEAKED * sigma, NARROW * float(picture.std()))
    is_doubtful = (is_doubtful or (factor != 1.0 and flattest > MOST)) and not is_peaked
    return min(_checked(sigma, energies, is_doubtful=is_doubtful), sigma * math.sqrt(flattest / LEAST))


def _checked(sigma: float, energies: Sequence[Float[Tensor, "..."]], *, is_doubtful: bool) -> float:
    """Return a level in view of the energies of patches relative to it, some for each channel.

    Where it is clearly too high for them, the mean with the likeliest one is taken: textures make the former too high,
    and few flat patches the latter too low. In doubt it is the likeliest one. Then it is 0 if that one is faint, if
    patches without any noise are not unlikely, or if all patches are alike and do not tell.
    """
    if not energies:
        return 0.0 if is_doubtful else sigma
    together = torch.cat(list(energies))
    if is_doubtful and are_alike(together):
        return 0.0
    likeliest, over_one, over_none = likeliest_noise(together)
    if is_doubtful:
        level = sigma * math.sqrt(min(likeliest, 1.0))
        return level if level > FAINTEST and over_none > UNLIKELY else 0.0
    return sigma * (1 + math.sqrt(likeliest)) / 2 if likeliest < NEARLY**2 and over_one > UNLIKELY else sigma


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
) -> tuple[float, bool]:
    """Return the variance of white noise relative to a first estimate, as the energies are, and whether it is doubtful.

    It is 1 where textures of some laws beside noise do not explain the energies, and doubtful where the flattest
    windows are more likely of textures of the laws ``alone``.
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
    if misfit(energy / (_densities(energy, mean, probability).softmax(1) @ mean)) > MISFIT:
        return 1.0, False
    return noise, _gain(energy, alone, noise) <= 0


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


def _one_of_pairs(shape: tuple[int, ...]) -> Bool[Tensor, " modes"]:
    """Return one of each two modes of a real window that are conjugates of each other, whose energies are equal."""
    numbers = torch.arange(math.prod(shape)).reshape(shape)
    return (numbers < numbers.flip(0, 1).roll((1, 1), (0, 1))).flatten()[1:]
