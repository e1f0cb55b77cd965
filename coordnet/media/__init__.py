"""Files in and out: pictures, videos, sound, tables, arrays and masks.

The public names are listed in ``__init__.pyi`` and imported when first used: arithmetic needs no reader of files.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
