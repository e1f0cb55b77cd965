"""Measures of an encoding: rank, distance preservation, spectrum, faithfulness; names are in ``__init__.pyi``."""

import lazy_loader

__docformat__ = "numpy"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
