"""Thin plates: a penalty on all derivatives of one order, for smooth fields."""

from coordnet.priors.plates.prior import ThinPlate as ThinPlate
