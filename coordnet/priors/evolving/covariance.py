"""The covariance of frames: for every band of spatial frequencies a matrix over the frames, and a smooth spectrum."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from coordnet.priors.evolving.frequency_bands import Bands, Modes

SMALLEST = 1e-6  # eigenvalue of a band's matrix, relative to its largest, below which it is raised


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance Σ_b diag(s_k, k in b) ⊗ C_b / tr(C_b) T of the cosine modes of T frames.

    The spectrum s is the mean variance tr(C_b) / T, interpolated between the middles of bands in logarithms, times the
    ``tilt`` of every mode.
    """

    bands: Bands
    matrices: Float[np.ndarray, "bands frames frames"]  # the matrices C_b
    tilt: Float[np.ndarray, " modes"]  # the variance of a mode relative to others of its band
    bases: Float[np.ndarray, "bands frames frames"]  # the eigenvectors of every matrix
    variances: Modes  # the variance of every mode along every eigenvector of its band

    @classmethod
    def of(
        cls, bands: Bands, matrices: Float[np.ndarray, "bands frames frames"], tilt: Float[np.ndarray, " modes"]
    ) -> "Covariance":
        """Return the covariance of some symmetric matrices, whose eigenvalues are bounded from below."""
        means = np.trace(matrices, axis1=1, axis2=2) / matrices.shape[1]
        frequencies = np.log(bands.frequency)
        spectrum = np.exp(np.interp(frequencies, np.log(bands.middles), np.log(means))) * tilt
        values, bases = np.linalg.eigh(matrices / means[:, None, None])
        values = np.maximum(values, SMALLEST * values[:, -1:])
        variances = np.empty((matrices.shape[1], len(spectrum)), np.float32)
        for value, part in zip(values, bands.parts, strict=True):
            variances[:, part] = value[:, None] * spectrum[part]
        return cls(bands, matrices, tilt, bases.astype(np.float32), variances)

    def along(self, z: Modes) -> Modes:
        """Return the coefficients of modes along the eigenvectors of their bands; those of lower bands alone, too."""
        return self._rotated(z, self.bases.transpose(0, 2, 1))

    def across(self, u: Modes) -> Modes:
        """Return the modes of coefficients along the eigenvectors."""
        return self._rotated(u, self.bases)

    def _rotated(self, z: Modes, matrices: Float[np.ndarray, "bands frames frames"]) -> Modes:
        rotated = np.empty_like(z)
        for matrix, part in zip(matrices, self.bands.parts, strict=True):
            if part.start >= z.shape[1]:
                break
            rotated[:, part] = matrix @ z[:, part]
        return rotated
