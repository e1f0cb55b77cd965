"""Learning the covariance of frames from their samples, by rounds of expectation-maximization."""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from coordnet.priors.evolving.covariance import Covariance
from coordnet.priors.evolving.frame_posterior import FramePosterior, Mean
from coordnet.priors.evolving.frequency_bands import Bands, Frames, Modes, Padded

SMOOTHED_BANDS = 1.0  # standard deviation, in bands, of the Gaussian that smooths what is learned of each
MOST_COUNTED = 50  # modes of a band beyond which it has no more weight among its neighbors
PRIOR = 10.0  # modes for each frame that the absence of correlations along the eigenvectors of a band is worth
TILT_WIDTH = 4.0  # standard deviation, in modes along each axis, of the Gaussian that smooths the tilt
MOST_TILT = 1e3  # largest variance of a mode relative to those of its band, and the inverse of the least
SMOOTHING = 0.1, 1.0  # width of the smoothing over eigenvectors, in shares of the frames, and its upper bound
NOISE_STEP = 2.0  # power of the factor by which expectation-maximization, which is slow there, changes the noise
LEARNING = 30, 2e-4  # steps and relative residual of solves that are learned from
FINAL = 80, 5e-5  # steps and relative residual of the last solve


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of the posterior of the modes, for every band."""

    # The mean of u uᵀ over the modes of a band, for coefficients u along its eigenvectors in units of their standard
    # deviations.
    relative: Float[np.ndarray, "bands frames frames"]
    # The mean over the eigenvectors of the variance of a mode, relative to what was assumed.
    ratios: Float[np.ndarray, " modes"]

    @classmethod
    def of(cls, covariance: Covariance, mean: Modes, deviation: Modes) -> "Moments":
        """Return the moments of a posterior mean and of one draw of the deviations from it."""
        deviations = np.sqrt(covariance.variances, dtype=np.float64)
        scaled = [covariance.along(x.astype(np.float64)) / deviations for x in (mean, deviation)]
        parts = covariance.bands.parts
        relative = np.stack([sum(x[:, p] @ x[:, p].T for x in scaled) / (p.stop - p.start) for p in parts])
        return cls(relative, np.square(np.stack(scaled)).mean(1).sum(0))


@dataclass(eq=False)
class Learner:
    """Frames with a covariance and noise that are improved round by round."""

    # The values, 0 where they are not known, and where they are.
    y: Frames
    known: Bool[np.ndarray, "frames *space"]
    covariance: Covariance  # the present covariance
    noise: float  # the present variance of the noise
    least_noise: float  # its least value
    seed: int = 0  # the seed of the draws
    mean: Padded | None = None  # the last posterior mean, on the padded lattice
    _deviation: Padded | None = field(default=None, repr=False)

    @property
    def bands(self) -> Bands:
        """The bands."""
        return self.covariance.bands

    def solve(self, *, is_last: bool = False) -> Mean:
        """Return the posterior mean without padding, from the last one on."""
        steps, tolerance = FINAL if is_last else LEARNING
        steps = steps if self.mean is not None else max(steps, FINAL[0])
        posterior = FramePosterior(self.covariance, self.known, self.noise)
        posterior_mean = posterior.mean(self.y, self.mean, steps, tolerance)
        self.mean = posterior_mean.frames
        return posterior_mean._replace(frames=self.bands.cropped(posterior_mean.frames))

    def learn(self, *, is_of_noise: bool = False) -> None:
        """Improve the covariance and the noise, or the noise alone, by the posterior mean and one posterior draw.

        The draw is one from the prior minus the posterior mean of values that are simulated from it, with the same
        random numbers in each round.
        """
        assert self.mean is not None, "a solved learner"
        level, generator = self.bands.levels[0], np.random.default_rng(self.seed)
        white = generator.standard_normal(self.covariance.variances.shape, dtype=np.float32)
        drawn = level.frames(self.covariance.across(white * np.sqrt(self.covariance.variances)))
        noise = generator.standard_normal(self.y.shape, dtype=np.float32) * np.float32(self.noise**0.5)
        simulated = np.where(self.known, -self.bands.cropped(drawn) - noise, np.float32(0))
        posterior = FramePosterior(self.covariance, self.known, self.noise)
        self._deviation = posterior.mean(simulated, self._deviation, *LEARNING).frames
        deviation = drawn + self._deviation
        residual = (self.y - self.bands.cropped(self.mean) - self.bands.cropped(deviation))[self.known]
        growth = float(np.square(residual, dtype=np.float64).mean()) / self.noise
        self.noise = max(self.noise * growth**NOISE_STEP, self.least_noise)
        if not is_of_noise:
            moments = Moments.of(self.covariance, level.modes(self.mean), level.modes(deviation))
            matrices, tilt = _matrices(self.covariance, moments), _tilted(self.covariance, moments.ratios)
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
    weights = np.exp(-0.5 * ((number[:, None] - number) / SMOOTHED_BANDS) ** 2) * np.minimum(counts, MOST_COUNTED)
    weights /= weights.sum(1, keepdims=True)
    return np.exp(np.tensordot(weights, np.log(x), 1))


def _matrices(covariance: Covariance, moments: Moments) -> Float[np.ndarray, "bands frames frames"]:
    """Return the matrices, with correlations along the present eigenvectors that are drawn to 0.

    The variances along the eigenvectors, relative to the present ones, are smoothed over neighbors.
    """
    counts, matrices = covariance.bands.counts, np.empty_like(covariance.matrices)
    frames = matrices.shape[1]
    share, bound = SMOOTHING
    growth = _near(counts, np.diagonal(moments.relative, axis1=1, axis2=2))
    growth = np.exp(gaussian_filter1d(np.log(growth), min(bound, share * frames), axis=1))
    for b, (matrix, relative) in enumerate(zip(covariance.matrices, moments.relative, strict=True)):
        scale = 1 / np.sqrt(np.diag(relative))
        shape = relative * np.outer(scale, scale) * (counts[b] / (counts[b] + PRIOR * frames))
        np.fill_diagonal(shape, 1.0)
        values, basis = np.linalg.eigh(matrix)
        deviation = np.sqrt(np.maximum(values, 1e-6 * values[-1]) * growth[b])
        matrices[b] = basis @ (deviation[:, None] * shape * deviation) @ basis.T
    return matrices
