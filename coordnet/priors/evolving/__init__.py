"""The evolving prior: frames in time, with a covariance over the frames for every band of spatial frequencies."""

from coordnet.priors.evolving.prior import Evolving as Evolving
