"""Any denoiser of pictures or function that demosaics as a prior, with a weight that the samples give."""

from coordnet.priors.denoiser.demosaicker import Demosaicker as Demosaicker
from coordnet.priors.denoiser.prior import Denoiser as Denoiser
