"""Reconstruct signals from samples with coordinate networks, in closed form where that is possible.

The public names are listed in ``__init__.pyi`` and imported when first used, so that ``coordnet --help`` does
not wait for torch.
"""

import lazy_loader

__docformat__ = "numpy"  # for pdoc, which reads it in each public module

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
