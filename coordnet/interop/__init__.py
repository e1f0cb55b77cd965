"""Other libraries' objects as this one's, and the other way round; each module needs the library of its name."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["deepinv"])
__docformat__ = "numpy"
