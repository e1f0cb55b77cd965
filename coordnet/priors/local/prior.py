"""The local prior: when it suits samples, and its plans."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.plans.plan import Plan
from coordnet.priors.adaptive import Adaptive
from coordnet.priors.adaptive.plan import AdaptivePlan
from coordnet.priors.base import Cleaning, Prior, Setting
from coordnet.priors.local.cell_means import LocalAreaPlan
from coordnet.priors.local.demosaicing import LocalMosaicPlan
from coordnet.priors.local.denoising import LocalNoisePlan
from coordnet.priors.local.lattices import LocalLatticePlan
from coordnet.priors.local.masks import LocalPlan
from coordnet.priors.local.parameters import LocalParameters, local_seconds
from coordnet.sampling.grids import AreaLattice, is_mosaic
from coordnet.sampling.samples import Geometry


@dataclass(frozen=True)
class Local(LocalParameters, Prior):
    """A mixture of Gaussians over overlapping patches, adapted to the very signal that is reconstructed.

    The classes of the mixture start as power laws of several energies and orientations. They are adapted by
    expectation-maximization with the unknown samples integrated out. Hidden samples decide the weight of the result
    against the reconstruction by the ``pilot``, which is all of the result if the weight is 0, as in holes wider than a
    patch. Pictures, clips and volumes are then filled once more, from groups of patches that are similar in the result,
    again weighed by hidden samples, and up to twice more where that gains; mosaics once, with a fixed weight. Means
    over the cells of a picture are divided by the classes as they start, then by such groups, both weighed by the
    picture's own half.

    Attributes
    ----------
    patch : tuple of int
        The lengths of a patch; by default 48, 8×8 or 4×6×6, by the number of axes. No longer than the lattice.
    rounds : int
        Rounds of adaptation on mosaics, at most 50, and at most two on other masks and noise; none is taken where the
        known samples form a lattice, whose gaps teach nothing.
    strength : float
        The number of patches that the starting classes are worth against those of the signal, from 1e-9 to 1e9.
    stride : int
        The distance of neighboring patches in the last pass, along each axis.
    noise : float
        The standard deviation of the noise on samples; with 0, known samples stay as they are.
    pilot : Adaptive
        The prior of the first reconstruction. It has the means of patches and the seed of the hidden samples.

    Raises
    ------
    ValueError
        If a number is out of its range, or the pilot is another prior.

    Notes
    -----
    Yu, Sapiro and Mallat, "Solving inverse problems with piecewise linear estimators" (2012), has the mixture and its
    adaptation; Zoran and Weiss, "From learning models of natural image patches to whole image restoration" (2011);
    Aguerrebere et al., "A Bayesian hyperprior approach for joint image denoising and interpolation" (2017).
    """

    name: ClassVar[str] = "local"
    cleans_by: ClassVar[Cleaning] = "patches"
    learns: ClassVar[bool] = True

    def plan(self, encoding: Encoding, geometry: Geometry, **options: Any) -> Plan:
        """Return the plan for means over cells, strided or noisy lattices, mosaics, or other masks.

        A strided row takes the pilot alone: its windows teach nothing that its spectrum does not, and on sound they
        lose. A ``ValueError`` is raised if the encoding is not Fourier's, or the samples are not those of a lattice.
        """
        if not isinstance(encoding, FourierEncoding):
            raise _checks.wrong(
                "encoding", "a FourierEncoding, which fits any lattice exactly", type(encoding).__name__
            )
        if not geometry.is_regular:
            expected = "samples on a lattice for a local prior; others take the adaptive prior"
            raise _checks.wrong("geometry", expected, type(geometry).__name__)
        if geometry.footprint == "area":
            return LocalAreaPlan(encoding, cast(AreaLattice, geometry), self, **options)
        weights = geometry.full_weights
        if geometry.is_strided and self.noise:
            raise _checks.wrong(
                "prior", "cn.Local() without noise on a lattice that skips samples, or cn.Adaptive()", repr(self)
            )
        if geometry.is_strided and len(geometry.grid) == 1:
            return AdaptivePlan(encoding, geometry, self.pilot, **options)
        if geometry.is_strided:
            kind: Any = LocalLatticePlan
        elif self.noise and bool((weights == 1).all()):
            kind = LocalNoisePlan
        elif (geometry.is_binary or self.noise) and is_mosaic(weights):
            kind = LocalMosaicPlan
        else:
            kind = LocalPlan
        return kind(encoding, geometry, self, **options)

    @classmethod
    def candidates(cls, setting: Setting) -> "tuple[Local, ...]":
        """Return it for pictures and clips with gaps or cells, also with the noise that samples seem to have."""
        geometry, dims = setting.geometry, len(setting.geometry.grid)
        if not setting.fourier or not geometry.is_regular:
            return ()
        if geometry.weights is None:
            return (cls(),) if dims == 2 and geometry.shape != geometry.grid else ()
        if dims not in (2, 3) or not (geometry.is_nodal and geometry.is_binary):
            return ()
        has_noise = setting.nugget > 0 and not is_mosaic(geometry.weights)
        return (cls(), cls(noise=float(f"{setting.nugget:.3g}"))) if has_noise else (cls(),)

    def seconds(self, setting: Setting) -> float:
        return local_seconds(self, setting.geometry, setting.channels, setting.device)

    def seeded(self, seed: int) -> "Local":
        return replace(self, pilot=self.pilot.seeded(seed))

    def with_noise(self, sigma: float) -> "Local":
        return replace(self, noise=sigma)

    @property
    def stationary(self) -> Adaptive:
        """The pilot, around which it works."""
        return self.pilot
