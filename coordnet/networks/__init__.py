"""Coordinate networks: heads on encodings, reconstructions, and attention with positions."""

from coordnet.networks import attention, heads

__docformat__ = "numpy"
__all__ = ["attention", "heads"]
