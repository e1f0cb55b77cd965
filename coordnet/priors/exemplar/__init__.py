"""The exemplar prior: a hole is filled with patches that are copied from the known part of the picture."""

from coordnet.priors.exemplar.prior import Exemplar as Exemplar
