"""The classes of mixtures: the spectra from which they start, and how the local prior adapts them and estimates."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from coordnet.linalg.machine import at_once, cholesky, in_threads
from coordnet.priors.local.gaussians import Gaussians, Group, evidence, few_masks
from coordnet.priors.local.mixture import CANDIDATES, Mixture, Moments, likely, mixed
from coordnet.priors.local.patches import Estimate, Observed, Patches, PatchPosterior

ENERGIES = (3e-5, 2e-4, 8e-4, 3e-3, 1e-2, 3e-2)  # variances of a patch around its mean, for signals of range 1
KNOWN_NOISE = (1 / 255) ** 2  # variance of the known entries' noise
ENTRY_VARIANCE = (0.6 / 255) ** 2  # variance that every entry of a patch has by itself
PILOT_ERROR = 0.05**2  # variance of the error of a patch's other entries in the pilot
PILOT_COMPONENTS = 16  # smoothest components of a patch that name its classes; the pilot knows little of the others
ADAPTED = 2  # classes that a patch adapts
COVARIANCES = 2**28  # bytes of a part's covariances on a CPU, if all entries of its patches were known
SHARED = 3 * 2**24  # bytes of the entries of a part's pairs of patch and class on a CPU, where masks are few
MIN_PROBABILITY = 0.05  # probability up to which a class of a patch is neglected
DIFFERENCE_WEIGHT = 0.4  # weight of the other channels in evidence and adaptation: a class says less of them

SLOPES = (1.0, 1.6)  # exponents of isotropic spectra in squared frequency: flat textures and soft edges
ORIENTED_SLOPES = (1.2, 1.75)  # exponents of spectra with a direction
ELONGATIONS = (3.0, 10.0)  # ratios by which oriented spectra are longer along their direction
PERIOD, PERIOD_IN_SPACE = 64, 16  # samples after which covariances repeat, in up to two dimensions and in more
CORNER = 0.7  # frequency below which the spectrum is flat, in periods
LUMA = ((1.0, 1.0, 1.0), (1.0, 0.0, -1.0), (1.0, -2.0, 1.0))  # luma and two differences of colors, not normalized
# The energy of color differences relative to luma's at low and at high frequency: three kinds of colorfulness.
COLORFULNESS = ((0.02, 0.0015), (0.1, 0.005), (0.3, 0.03))
CROSSOVER, STEEPNESS = 0.07, 4  # frequency in cycles per sample between low and high, and the power of the transition
COLOR_ENERGIES = (1.0, 0.08, 0.03)  # energies of luma and the differences in photographs, relative to luma's
SECOND_DIFFERENCE = 0.6  # energy of the second difference of colors, relative to the first
MEAN_ERRORS = (0.1, 0.02, 0.02)  # variances of the pilot's patch means in luma and the differences, relative to energy


@dataclass(frozen=True)
class Channels:
    """Uncorrelated channels, the first of the largest energy: their basis (columns) and relative energies."""

    basis: Float[Tensor, "channels channels"]
    energies: Float[Tensor, " channels"]

    @classmethod
    def of(cls, values: Float[Tensor, "channels *lattice"], known: Bool[Tensor, "#channels *lattice"]) -> "Channels":
        """Return luma and two color differences for three channels, principal components for other numbers."""
        if len(values) == 3:
            basis = torch.tensor(LUMA, dtype=values.dtype, device=values.device).T
            return cls(basis / basis.norm(dim=0), basis.new_tensor(COLOR_ENERGIES))
        mask = known.expand_as(values).flatten(1).to(values)
        y = values.flatten(1) * mask
        covariance = (y @ y.T).double() / (mask @ mask.T).clamp(min=1).double()
        energies, basis = torch.linalg.eigh(covariance)
        floor = 1e-3 * energies[-1:].clamp(min=torch.finfo(values.dtype).tiny)
        energies = torch.maximum(energies, floor).flip(0)
        return cls(basis.flip(1).to(values), (energies / energies[0]).to(values))


def directions(dims: int) -> Float[Tensor, "n dims"]:
    """Return unit vectors in half of all directions: 6 in the plane, those to neighbors in space, none on a line."""
    if dims == 1:
        return torch.empty(0, 1, dtype=torch.float64)
    if dims == 2:
        angles = math.pi * torch.arange(6, dtype=torch.float64) / 6
        return torch.stack([angles.cos(), angles.sin()], 1)
    steps = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)] * dims)
    half = steps[len(steps) // 2 + 1 :]  # the others are their negatives
    return half / half.norm(dim=1, keepdim=True)


@dataclass(frozen=True)
class Spectra:
    """Power spectra on a periodic lattice, isotropic ones before oriented ones, and their squared frequencies."""

    values: Float[Tensor, "shapes *period"]
    squared_frequency: Float[Tensor, "*period"]

    @classmethod
    def of(cls, shape: tuple[int, ...], device: torch.device | str = "cpu") -> "Spectra":
        """Return the spectra for patches of a shape, on a device."""
        least = PERIOD if len(shape) <= 2 else PERIOD_IN_SPACE
        period = tuple(max(least, 2 * n) for n in shape)
        axes = [torch.fft.fftfreq(n, dtype=torch.float64) for n in period]  # a GPU would take longer to launch them
        f = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)
        total, corner = f.square().sum(-1), (CORNER / max(period)) ** 2
        spectra = [(total + corner) ** -slope for slope in SLOPES]
        for slope, elongation, direction in itertools.product(ORIENTED_SLOPES, ELONGATIONS, directions(len(shape))):
            along = (f @ direction).square()
            spectra.append((along / elongation + (total - along) * elongation + corner) ** -slope)
        return cls(torch.stack(spectra).to(device), total.to(device))

    def covariances(
        self, shape: tuple[int, ...], ratio: Float[Tensor, "*period"] | float = 1.0
    ) -> Float[Tensor, "shapes size size"]:
        """Return the covariances of patches without their means, for the spectra times a ratio.

        They are divided by the mean variance of an entry under the spectra themselves.
        """
        points = torch.cartesian_prod(*[torch.arange(n, device=self.values.device) for n in shape]).reshape(
            -1, len(shape)
        )
        lags = points.unsqueeze(1) - points
        index = tuple(lags[..., j] % n for j, n in enumerate(self.squared_frequency.shape))
        own, scaled = (self._centered(spectra, index) for spectra in (self.values, self.values * ratio))
        variance = own.diagonal(dim1=1, dim2=2).mean(1)
        return scaled / variance.clamp(min=1e-30)[:, None, None]  # it is 0 in patches of one entry, which is their mean

    def _centered(self, spectra: Tensor, index: tuple[Tensor, ...]) -> Tensor:
        correlation = torch.fft.ifftn(spectra, dim=tuple(range(1, spectra.ndim))).real
        c = correlation[(slice(None), *index)]
        return c - c.mean(1, keepdim=True) - c.mean(2, keepdim=True) + c.mean((1, 2), keepdim=True)


def power_laws(shape: tuple[int, ...], device: torch.device | str = "cpu") -> Float[Tensor, "shapes size size"]:
    """Return covariances of patches without their means, each with the mean variance 1: isotropic, then oriented."""
    return Spectra.of(shape, device).covariances(shape)


def joint_shapes(
    shape: tuple[int, ...],
    colorfulness: tuple[tuple[float, float], ...] = COLORFULNESS,
    device: torch.device | str = "cpu",
) -> Float[Tensor, "shapes columns columns"]:
    """Return covariances of patches of three colors, color after color, for luma of mean variance 3.

    Each shape of luma comes with every colorfulness.
    """
    spectra = Spectra.of(shape, device)
    luma = spectra.covariances(shape)
    transition = 1 / (1 + (spectra.squared_frequency.sqrt() / CROSSOVER) ** STEEPNESS)
    basis = torch.tensor(LUMA, dtype=torch.float64, device=device).T
    basis = basis / basis.norm(dim=0)
    shapes = []
    for low, high in colorfulness:
        difference = spectra.covariances(shape, high + (low - high) * transition)
        parts = torch.stack([luma, difference, SECOND_DIFFERENCE * difference])
        parts = parts + torch.tensor(MEAN_ERRORS, dtype=parts.dtype, device=device)[:, None, None, None]
        size = len(basis) * parts.shape[-1]
        shapes.append(3 * torch.einsum("ac,bc,csij->saibj", basis, basis, parts).reshape(-1, size, size))
    return torch.cat(shapes)


def gray_shapes(shape: tuple[int, ...], device: torch.device | str = "cpu") -> Float[Tensor, "shapes size size"]:
    """Return covariances of patches of one channel, of mean variance 1."""
    return power_laws(shape, device) + MEAN_ERRORS[0]


@dataclass(frozen=True)
class Assigned:
    """Patches around their means, and the likely classes of each."""

    means: Float[Tensor, "patches channels 1"]
    labels: Int[Tensor, "patches candidates"]
    probabilities: Float[Tensor, "patches candidates"]
    groups: list[Group]  # the pairs of a patch and a candidate

    def likely(self, count: int) -> tuple[Float[Tensor, " pairs"], Iterator[Group]]:
        """Return the probabilities of the ``count`` likeliest classes of each patch, 0 for others, and their groups."""
        p, order = self.probabilities.sort(1, descending=True)
        p[:, count:] = 0
        p = torch.zeros_like(p).scatter_(1, order, likely(p, MIN_PROBABILITY)).flatten()
        return p, (group.only(p > 0) for group in self.groups)


@dataclass(frozen=True)
class LocalClasses:
    """A mixture of Gaussians over patches, whose classes start as energies times shapes.

    Where all channels have one mask, the uncorrelated channels of a patch are columns whose covariances differ by a
    factor alone, so that one factorization serves them. Otherwise all channels of a patch form one column (``joint``).
    """

    shape: tuple[int, ...]  # the lengths of a patch
    channels: Channels  # the uncorrelated channels
    joint: bool  # whether masks differ by channel
    mixture: Mixture  # the classes, as shapes of one energy: each adapts on its own
    start: Float[Tensor, "classes size size"]  # their covariances before any adaptation

    @classmethod
    def begin(
        cls, shape: tuple[int, ...], channels: Channels, *, joint: bool, noise: float = KNOWN_NOISE
    ) -> "LocalClasses":
        """Return the classes before any adaptation, all of the same weight."""
        shapes = power_laws(shape, channels.basis.device).to(channels.basis) + MEAN_ERRORS[0]
        energies = len(channels.energies) * shapes.new_tensor(ENERGIES)
        covariances = (energies[:, None, None, None] * shapes).flatten(0, 1)
        if joint:
            mixing = channels.basis * channels.energies @ channels.basis.T
            covariances = torch.stack([torch.kron(mixing, c) for c in covariances])
        covariances = covariances + ENTRY_VARIANCE * torch.eye(covariances.shape[-1]).to(covariances)
        return cls(shape, channels, joint, Mixture.begin(covariances, (1.0,), noise), covariances)

    def _parts(self, observed: Observed, patches: Patches) -> Iterator[Patches]:
        """Return the patches in parts whose factorizations fit into memory together.

        Patches of few masks share them; in smaller parts these would take most of their time between operations.
        """
        known, size = patches.of(observed.known).flatten(1), self.start.shape[-1]
        many = few_masks(known) is None
        each = CANDIDATES * size * (size if many else len(self.column_weights)) * observed.values.element_size()
        return patches.split(at_once(each, known.device, COVARIANCES if many else SHARED))

    @property
    def gaussians(self) -> Gaussians:
        """The classes, as patches with any unknown entries see them."""
        return Gaussians(self.mixture.shapes, self.mixture.noise)

    @property
    def column_weights(self) -> Float[Tensor, " columns"]:
        """The weight of each column of a patch in evidence and adaptation."""
        weights = torch.full_like(self.channels.energies[: 1 if self.joint else None], DIFFERENCE_WEIGHT)
        weights[0] = 1
        return weights

    def observe(
        self,
        values: Float[Tensor, "channels *lattice"],
        known: Bool[Tensor, "#channels *lattice"],
        pilot: Float[Tensor, "channels *lattice"],
    ) -> Observed:
        """Return a signal and its pilot in the channels of the classes: the signal's own, if masks differ."""
        if self.joint:
            return Observed(values, known, pilot)
        rotation = self.channels.basis.T
        return Observed(torch.tensordot(rotation, values, 1), known, torch.tensordot(rotation, pilot, 1))

    def restore(self, f: Float[Tensor, "channels *lattice"]) -> Float[Tensor, "channels *lattice"]:
        """Return a signal in its own channels, from those of ``observe``."""
        return f if self.joint else torch.tensordot(self.channels.basis, f, 1)

    def assign(self, observed: Observed, patches: Patches) -> Assigned:
        """Return patches with their likely classes: the pilot names candidates, the known entries their shares."""
        guess = patches.of(observed.pilot)
        means = guess.mean(2, keepdim=True)
        known = patches.of(observed.known)
        y = torch.where(known, patches.of(observed.values) - means, 0.0)
        guess = guess - means
        if self.joint:
            lead = torch.einsum("pcs,c->ps", guess, self.channels.basis[:, 0])
            y, known = y.flatten(1).unsqueeze(1), known.flatten(1)
        else:
            lead, known = guess[:, 0], known[:, 0]
            y /= self.channels.energies.sqrt().unsqueeze(1)
        weights = self.mixture.weights[:, 0].log()
        labels = (self._pilot_evidence(lead) + weights).topk(min(CANDIDATES, len(weights)), 1).indices
        groups = list(self.gaussians.groups(y, known, labels))
        score = evidence(groups, self.column_weights, labels.numel()).reshape(labels.shape)
        return Assigned(means, labels, (score + weights[labels]).softmax(1), groups)

    def _pilot_evidence(self, lead: Float[Tensor, "patches size"]) -> Float[Tensor, "patches classes"]:
        """Return the log density of the pilot's patches in the first channel, but for a constant."""
        smoothest, inverses, volumes = self._pilot
        lead = lead @ smoothest
        return -0.5 * ((lead.unsqueeze(2) * lead.unsqueeze(1)).flatten(1) @ inverses.flatten(1).T) - volumes

    @cached_property
    def _pilot(self) -> tuple[Tensor, Tensor, Tensor]:
        """The pilot's smoothest components (size, n), and its precisions (classes, n, n) and log volumes in them."""
        covariances = self.mixture.shapes
        if self.joint:
            size, first = math.prod(self.shape), self.channels.basis[:, 0]
            blocks = covariances.unflatten(2, (-1, size)).unflatten(1, (-1, size))
            covariances = torch.einsum("kaibj,a,b->kij", blocks, first, first)
        smoothest = torch.linalg.eigh(covariances.mean(0)).eigenvectors[:, -PILOT_COMPONENTS:]
        covariances = smoothest.T @ covariances @ smoothest
        factors = cholesky(covariances + PILOT_ERROR * torch.eye(covariances.shape[1]).to(covariances))
        return smoothest, torch.cholesky_inverse(factors), factors.diagonal(dim1=1, dim2=2).log().sum(1)

    def adapted(self, observed: Observed, patches: Patches, strength: float) -> "LocalClasses":
        """Return the classes after one round of expectation-maximization; see ``Mixture.updated``."""

        def expectation(part: Patches) -> Moments:
            assigned = self.assign(observed, part)
            p, groups = assigned.likely(ADAPTED)
            counts = torch.zeros_like(self.start[:, 0, 0]).index_add_(0, assigned.labels.flatten(), p)
            return Moments(self.gaussians.moments(groups, p, self.column_weights), counts, counts.unsqueeze(1))

        moments = Moments.zero(self.mixture)
        for part in in_threads(expectation, self._parts(observed, patches), self.start.device):
            moments.add(part)
        return replace(self, mixture=self.mixture.updated(moments, self.start, strength))

    def estimate(self, observed: Observed, patches: Patches) -> Estimate:
        """Return the mean of overlapping patches, each entry weighted by its posterior precision.

        Entries of no patch are the pilot's.
        """

        def posterior(part: Patches) -> PatchPosterior:
            assigned = self.assign(observed, part)
            mean, variance = self._posterior(assigned)
            likeliest = assigned.probabilities.argmax(1, keepdim=True)
            classes = assigned.labels.gather(1, likeliest)[:, 0]
            return PatchPosterior(part, mean + assigned.means, variance, classes, self.mixture.noise)

        parts = self._parts(observed, patches)
        return Estimate.of(in_threads(posterior, parts, observed.pilot.device), observed.pilot)

    def _posterior(self, assigned: Assigned) -> tuple[Tensor, Tensor]:
        """Return the mean and the variance of every patch's entries: (patches, channels, size)."""
        p, groups = assigned.likely(CANDIDATES)
        zero = p.new_zeros(len(assigned.means), len(self.column_weights), self.start.shape[-1])
        candidates = assigned.labels.shape[1]
        each = ((g.pairs // candidates, g.of(p), *self.gaussians.posterior(g)) for g in groups)
        mean, variance = mixed(each, zero)
        if self.joint:
            shape = (len(mean), len(self.channels.energies), -1)
            return mean.reshape(shape), variance.reshape(shape)
        energies = self.channels.energies.unsqueeze(1)
        return mean * energies.sqrt(), variance * energies
