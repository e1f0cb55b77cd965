"""The choice of a plan with the local prior: what the known samples of a lattice allow."""

from typing import Any, cast

import torch

from coordnet import _checks
from coordnet.encodings import Encoding, FourierEncoding
from coordnet.plans.plan import Plan
from coordnet.priors.adaptive.plan import AdaptivePlan
from coordnet.priors.local.areas import LocalAreaPlan
from coordnet.priors.local.lattices import LocalLatticePlan
from coordnet.priors.local.masks import LocalPlan
from coordnet.priors.local.mosaics import LocalMosaicPlan, is_mosaic
from coordnet.priors.local.noise import LocalNoisePlan
from coordnet.priors.local.parameters import Local
from coordnet.sampling.areas import AreaLattice
from coordnet.sampling.samples import Geometry


def local_plan(encoding: Encoding, geometry: Geometry, prior: Local, **options: Any) -> Plan:
    """Return the plan for means over cells, strided or noisy lattices, mosaics, or other masks; options are ``Plan``'s.

    A strided row takes the pilot alone: its windows teach nothing that its spectrum does not, and on sound they lose.

    Raises
    ------
    ValueError
        If the encoding is not Fourier's, or the samples are not those of a lattice.
    """
    if not isinstance(encoding, FourierEncoding):
        raise _checks.wrong("encoding", "a FourierEncoding, which fits any lattice exactly", type(encoding).__name__)
    if geometry.is_scattered or geometry.operator is not None:
        expected = "samples on a lattice for a local prior; others take the adaptive prior"
        raise _checks.wrong("geometry", expected, type(geometry).__name__)
    if geometry.has_cells:
        return LocalAreaPlan(encoding, cast(AreaLattice, geometry), prior, **options)
    weights = torch.ones(*geometry.shape, 1) if geometry.weights is None else geometry.weights
    is_strided = geometry.is_whole_lattice and geometry.shape != geometry.grid
    if is_strided and prior.noise:
        raise _checks.wrong(
            "prior", "cn.Local() without noise on a lattice that skips samples, or cn.Adaptive()", repr(prior)
        )
    if is_strided and len(geometry.grid) == 1:
        return AdaptivePlan(encoding, geometry, prior.pilot, **options)
    if is_strided:
        kind: Any = LocalLatticePlan
    elif prior.noise and bool((weights == 1).all()):
        kind = LocalNoisePlan
    elif bool(((weights == 0) | (weights == 1)).all()) and is_mosaic(weights.movedim(-1, 0) > 0):
        kind = LocalMosaicPlan
    else:
        kind = LocalPlan
    return kind(encoding, geometry, prior, **options)
