"""xarray: ``import coordnet.xarray`` gives arrays and datasets an accessor, as in ``da.coordnet.fill()``."""

from coordnet.xarray.accessors import ArrayAccessor as ArrayAccessor
from coordnet.xarray.accessors import DatasetAccessor as DatasetAccessor
