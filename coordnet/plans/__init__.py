"""What all plans share: centering, modes, measurements, systems, hidden samples, CUDA graphs."""

__docformat__ = "numpy"
