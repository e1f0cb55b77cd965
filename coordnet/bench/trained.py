"""Trained networks beside the methods that need no training: alone, and weighed by this library.

FFDNet and demosaicnet were trained on photographs, though not on Kodak's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from coordnet.bench.experiment import Case, Estimator, Method, Outcome
from coordnet.comparison.stopwatch import timed
from coordnet.fitting.fit import fit
from coordnet.priors.denoiser import Demosaicker, Denoiser
from coordnet.priors.denoiser.demosaicker import demosaicked
from coordnet.priors.denoiser.named import PACKAGE, ffdnet
from coordnet.restore.denoise import denoise
from coordnet.restore.upscale import upscale

PATTERN = "GRBG"  # that of demosaicnet


@dataclass(frozen=True)
class WithFFDNet(Estimator):
    """A restoration by what suits the samples, beside which FFDNet is weighed; without it if not ``trained``."""

    function: Callable[[Case, Denoiser | None], Tensor]
    trained: bool = True

    @property
    def package(self) -> str | None:
        """The package that has the weights."""
        return PACKAGE if self.trained else None

    def __call__(self, case: Case) -> Outcome:
        denoiser = Denoiser.named("ffdnet") if self.trained else None
        return Outcome(*timed(lambda: self.function(case, denoiser)))


def networked(function: Callable[[Case, Denoiser | None], Tensor]) -> tuple[Method, ...]:
    """Return a restoration without FFDNet and with it."""
    return Method("coordnet", WithFFDNet(function, trained=False)), Method("coordnet with FFDNet", WithFFDNet(function))


def filled(case: Case, prior: Denoiser | Demosaicker | None) -> Tensor:
    """Fit the samples."""
    return fit(case.samples, prior=prior or "auto").render(case.samples.grid, alignment="sample")  # type: ignore[arg-type]


def enlarged(case: Case, denoiser: Denoiser | None) -> Tensor:
    """Enlarge the picture."""
    values = case.samples.values
    return upscale(values, case.samples.grid[0] / values.shape[0], prior=denoiser or "auto").signal


def cleaned(case: Case, denoiser: Denoiser | None) -> Tensor:
    """Remove noise, which is estimated."""
    return denoise(case.samples.values, prior=denoiser or "auto").signal


@torch.no_grad()
def ffdnet_alone(case: Case) -> Tensor:
    """Denoise a picture of even sides by FFDNet, with the true noise."""
    return ffdnet()(case.samples.values.movedim(-1, 0).unsqueeze(0), case.noise)[0].movedim(0, -1)


@torch.no_grad()
def demosaicnet(case: Case) -> Tensor:
    """Demosaic by the network of Gharbi, Chaurasia, Paris and Durand (2016), trained on photographs."""
    mosaic, known = (f.movedim(-1, 0) for f in (case.samples.values, case.samples.geometry.full_weights > 0))
    return demosaicked(_demosaicnet(), PATTERN, torch.where(known, mosaic, 0.0), known).movedim(0, -1)


def with_demosaicnet(case: Case) -> Tensor:
    """Demosaic by what suits the mosaic, beside which demosaicnet is weighed."""
    return filled(case, Demosaicker(_demosaicnet(), PATTERN))


def _demosaicnet() -> Any:
    from demosaicnet import BayerDemosaick  # pyright: ignore[reportMissingImports]

    return BayerDemosaick()
