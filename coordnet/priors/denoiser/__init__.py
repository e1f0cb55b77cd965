"""Any denoiser of pictures as a prior, by plug-and-play, with a weight that hidden samples give."""

from coordnet.priors.denoiser.prior import Denoiser as Denoiser
