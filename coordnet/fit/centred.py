"""Values less what is fitted apart, made as they are wanted: whole, or some channels at a time."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from coordnet.linalg.allocation import empty
from coordnet.linalg.scratch import parts, scratch
from coordnet.linalg.tracking import tracked

# A fixed sequence of products: what becomes of values (signals, channels, …), in a tensor if one is given; then the
# values are overwritten.
Chain = Callable[[Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Centred:
    """Values less the mean of every channel.

    Attributes
    ----------
    values : (signals, channels, *samples)
        As they came; channels may be strided.
    means : (signals, channels)
        What is fitted apart.
    batch : tuple of int
        Leading dimensions of the signals as they came.
    """

    values: Float[Tensor, "signals channels *samples"]
    means: Float[Tensor, "signals channels"]
    batch: tuple[int, ...]

    def whole(self) -> Float[Tensor, "signals channels *samples"]:
        """The differences, in memory of their own."""
        if tracked(self.values):
            return self.values - self._spread(self.values.ndim)
        return (
            empty(self.values, tuple(self.values.shape))
            .copy_(self.values)
            .sub_(self._spread(self.values.ndim))
        )

    def through(
        self, chain: Chain, shape: tuple[int, ...], *, shifted: bool = False
    ) -> Float[Tensor, "signals channels *shape"]:
        """What a chain makes of the differences, some channels at a time, the means added again if ``shifted``.

        Nothing is allocated but the result, where what one channel passes on is small enough for ``scratch`` to keep.
        """
        means = self._spread(len(shape) + 2)
        if tracked(self.values):
            made = chain(self.whole(), None)
            return made + means if shifted else made
        out = empty(self.values, (*self.values.shape[:2], *shape))
        centres = self._spread(self.values.ndim)
        for part in parts(self.values, out):
            values = self.values[part]
            made = chain(scratch(values, tuple(values.shape)).copy_(values).sub_(centres[part]), out[part])
            if shifted:
                made.add_(means[part])
        return out

    def _spread(self, dims: int) -> Tensor:
        return self.means.reshape(*self.means.shape, *(1,) * (dims - 2))
