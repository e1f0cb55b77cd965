"""The experiments that measure coordnet against its peers."""
