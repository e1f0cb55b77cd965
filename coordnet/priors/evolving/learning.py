"""Learning the covariance of frames from their samples, by rounds of expectation-maximization."""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from coordnet.priors.evolving.bands import Bands, Frames, Modes, Padded, scipy_fft
from coordnet.priors.evolving.covariance import Covariance
from coordnet.priors.evolving.solve import Mean, Posterior

NEIGHBORS = 1.0  # standard deviation, in bands, of the Gaussian that smooths what is learned of each
MOST_COUNTED = 50  # modes of a band beyond which it has no more weight among its neighbors
POOLED = 3.0  # modes for each frame that bands with one matrix have together
POOLED_PRIOR = 30.0  # modes for each frame that the stationary part of such a matrix is worth
OWN_PRIOR = 10.0  # modes for each frame that the absence of correlations is worth where each band has its own matrix
TILT_WIDTH = 4.0  # standard deviation, in modes along each axis, of the Gaussian that smooths the tilt
MOST_TILT = 1e3  # largest variance of a mode relative to those of its band, and the inverse of the least
SMALLEST = 1e-12  # least variance along a cosine in time, relative to the largest
OWN_SMOOTHING = 0.1, 1.0  # width of the smoothing over eigenvectors, in shares of the frames, and its upper bound
LEARNING = 30, 2e-4  # steps and relative residual of solves that are learned from
FINAL = 80, 5e-5  # steps and relative residual of the last solve


@dataclass(frozen=True, eq=False)
class Moments:
    """What the posterior says of the modes of every band.

    Attributes
    ----------
    matrices : (bands, frames, frames)
        The mean of z zᵀ over the modes z of a band.
    relative : (bands, frames, frames)
        The same along the eigenvectors of the band, in units of the standard deviations of the modes.
    ratios : (modes,)
        The mean over the eigenvectors of the variance of a mode, relative to what was assumed.
    """

    matrices: Float[np.ndarray, "bands frames frames"]
    relative: Float[np.ndarray, "bands frames frames"]
    ratios: Float[np.ndarray, " modes"]

    @classmethod
    def of(cls, covariance: Covariance, mean: Modes, deviation: Modes) -> "Moments":
        """Return the moments of a posterior mean and of one draw of the deviations from it."""
        both = [x.astype(np.float64) for x in (mean, deviation)]
        scaled = [covariance.along(x) / np.sqrt(covariance.variances, dtype=np.float64) for x in both]
        parts = covariance.bands.parts
        matrices = np.stack([sum(x[:, p] @ x[:, p].T for x in both) / (p.stop - p.start) for p in parts])
        relative = np.stack([sum(x[:, p] @ x[:, p].T for x in scaled) / (p.stop - p.start) for p in parts])
        return cls(matrices, relative, np.square(np.stack(scaled)).mean(1).sum(0))


@dataclass(eq=False)
class Learner:
    """Frames with a covariance and noise that are improved round by round.

    Attributes
    ----------
    y, known : (frames, *space)
        The values, 0 where they are not known, and where they are.
    covariance : Covariance
        The present covariance.
    noise : float
        The present variance of the noise.
    is_pooled : bool
        Whether neighboring bands share a matrix and its stationary part is trusted, or every band has its own.
    """

    y: Frames
    known: Bool[np.ndarray, "frames *space"]
    covariance: Covariance
    noise: float
    is_pooled: bool
    least_noise: float
    seed: int = 0
    mean: Padded | None = None  # on the padded lattice
    _deviation: Padded | None = field(default=None, repr=False)

    @property
    def bands(self) -> Bands:
        """The bands."""
        return self.covariance.bands

    def solve(self, *, is_last: bool = False) -> Mean:
        """Return the posterior mean without padding, from the last one on."""
        steps, tolerance = FINAL if is_last else LEARNING
        steps = steps if self.mean is not None else max(steps, FINAL[0])
        posterior = Posterior(self.covariance, self.known, self.noise)
        found = posterior.mean(self.y, self.mean, steps, tolerance)
        self.mean = found.frames
        return found._replace(frames=self.bands.cropped(found.frames))

    def learn(self) -> None:
        """Improve the covariance and the noise by the posterior mean and one draw from the posterior.

        The draw is one from the prior minus the posterior mean of values that are simulated from it, with the same
        random numbers in each round.
        """
        assert self.mean is not None, "a solved learner"
        level, generator = self.bands.levels[0], np.random.default_rng(self.seed)
        white = generator.standard_normal(self.covariance.variances.shape, dtype=np.float32)
        drawn = level.frames(self.covariance.across(white * np.sqrt(self.covariance.variances)))
        noise = generator.standard_normal(self.y.shape, dtype=np.float32) * np.float32(self.noise**0.5)
        simulated = np.where(self.known, -self.bands.cropped(drawn) - noise, np.float32(0))
        posterior = Posterior(self.covariance, self.known, self.noise)
        self._deviation = posterior.mean(simulated, self._deviation, *LEARNING).frames
        deviation = drawn + self._deviation
        moments = Moments.of(self.covariance, level.modes(self.mean), level.modes(deviation))
        tilt = _tilted(self.covariance, moments.ratios)
        matrices = (_pooled if self.is_pooled else _own)(self.covariance, moments)
        residual = (self.y - self.bands.cropped(self.mean) - self.bands.cropped(deviation))[self.known]
        self.noise = max(float(np.square(residual, dtype=np.float64).mean()), self.least_noise)
        self.covariance = Covariance.of(self.bands, (matrices + matrices.transpose(0, 2, 1)) / 2, tilt)

    def at(self, y: Frames, known: Bool[np.ndarray, "frames *space"]) -> "Learner":
        """Return a learner of other samples of the same frames, with the present covariance, noise and mean."""
        return replace(self, y=y, known=known, _deviation=None)


def _tilted(covariance: Covariance, ratios: Float[np.ndarray, " modes"]) -> Float[np.ndarray, " modes"]:
    """Return the variances of modes relative to others of their bands, of mean 1, by smoothed ratios."""
    bands = covariance.bands
    level = bands.levels[0]
    spread = np.empty_like(ratios)
    spread[level.order] = ratios
    spread = gaussian_filter(spread.reshape(level.lattice), TILT_WIDTH, mode="mirror").ravel()
    tilt = np.clip(covariance.tilt * spread[level.order], 1 / MOST_TILT, MOST_TILT)
    for part in bands.parts:
        tilt[part] /= tilt[part].mean()
    return tilt


def _near(counts: Int[np.ndarray, " bands"], x: Float[np.ndarray, "bands *_"]) -> Float[np.ndarray, "bands *_"]:
    """Return geometric means over neighboring bands, weighed by their modes."""
    number = np.arange(len(counts))
    weights = np.exp(-0.5 * ((number[:, None] - number) / NEIGHBORS) ** 2) * np.minimum(counts, MOST_COUNTED)
    weights /= weights.sum(1, keepdims=True)
    return np.exp(np.tensordot(weights, np.log(x), 1))


def _pooled(covariance: Covariance, moments: Moments) -> Float[np.ndarray, "bands frames frames"]:
    """Return matrices that neighboring bands share until they have ``POOLED`` modes for each frame.

    Their scale is that of each band, smoothed over its neighbors, and they are drawn to their stationary part.
    """
    counts, found = covariance.bands.counts, np.empty_like(covariance.matrices)
    frames = found.shape[1]
    before = np.trace(covariance.matrices, axis1=1, axis2=2) / frames
    after = np.trace(moments.matrices, axis1=1, axis2=2) / frames
    scale = before * _near(counts, after / before)
    first = 0
    while first < len(counts):
        last = first + 1 + int(np.searchsorted(np.cumsum(counts[first:]), POOLED * frames))
        last = len(counts) if counts[last:].sum() < POOLED * frames else last
        weights = counts[first:last] / after[first:last]
        shape = np.tensordot(weights, moments.matrices[first:last], 1)
        total, prior = counts[first:last].sum(), POOLED_PRIOR * frames
        shape = (shape + prior * stationary(shape / total)) / (total + prior)
        found[first:last] = scale[first:last, None, None] * shape / np.trace(shape) * frames
        first = last
    return found


def _own(covariance: Covariance, moments: Moments) -> Float[np.ndarray, "bands frames frames"]:
    """Return a matrix for every band, with correlations along its present eigenvectors that are drawn to 0.

    The variances along the eigenvectors, relative to the present ones, are smoothed over neighbors.
    """
    counts, found = covariance.bands.counts, np.empty_like(covariance.matrices)
    frames = found.shape[1]
    share, bound = OWN_SMOOTHING
    growth = _near(counts, np.diagonal(moments.relative, axis1=1, axis2=2))
    growth = np.exp(gaussian_filter1d(np.log(growth), min(bound, share * frames), axis=1))
    for b, (matrix, relative) in enumerate(zip(covariance.matrices, moments.relative, strict=True)):
        scale = 1 / np.sqrt(np.diag(relative))
        shape = relative * np.outer(scale, scale) * (counts[b] / (counts[b] + OWN_PRIOR * frames))
        np.fill_diagonal(shape, 1.0)
        values, basis = np.linalg.eigh(matrix)
        deviation = np.sqrt(np.maximum(values, 1e-6 * values[-1]) * growth[b])
        found[b] = basis @ (deviation[:, None] * shape * deviation) @ basis.T
    return found


def stationary(matrix: Float[np.ndarray, "frames frames"]) -> Float[np.ndarray, "frames frames"]:
    """Return the part of a covariance over frames that is diagonal in cosines in time, with a smooth spectrum.

    It is taken as if the frames were equally far apart.
    """
    spectrum = np.diag(scipy_fft.dct(scipy_fft.dct(matrix, axis=0, norm="ortho"), axis=1, norm="ortho")).copy()
    if len(spectrum) > 4:
        bounded = np.maximum(spectrum[1:], SMALLEST * spectrum.max())
        spectrum[1:] = np.exp(gaussian_filter1d(np.log(bounded), 1.0))
    return scipy_fft.idct(scipy_fft.idct(np.diag(spectrum), axis=0, norm="ortho"), axis=1, norm="ortho")
