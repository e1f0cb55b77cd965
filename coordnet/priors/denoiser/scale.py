"""The scale of a signal: the affine map that takes its known range to [0, 1], where denoisers work."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

Signal = Float[Tensor, "channels *lattice"]


@dataclass(frozen=True)
class Scale:
    """The least value of a signal and its span, which become 0 and 1."""

    low: float
    span: float

    @classmethod
    def of(cls, known: Tensor) -> "Scale":
        """Return the scale of some values; of one value alone the span is 1."""
        low, high = (float(end) for end in known.aminmax())
        return cls(low, high - low or 1.0)

    @classmethod
    def of_noisy(cls, estimate: Tensor, level: float, one: float) -> "Scale":
        """Return the scale of an estimate of values with noise of a standard deviation.

        A picture from 0 to ``one`` stays as it is, dark or not: its range is known. Estimates go beyond it by about the
        noise.
        """
        (low, high), beyond = (float(end) for end in estimate.aminmax()), 2 * level
        return cls(0.0, one) if -beyond <= low and level < high <= one + beyond else cls.of(estimate)

    def into(self, f: Tensor) -> Tensor:
        """Return values in units of the span, from the least one on."""
        return (f - self.low) / self.span

    def back(self, f: Tensor) -> Tensor:
        """Invert ``into``."""
        return f * self.span + self.low
