"""Columns of a table whose noise differs in size, as that of columns with other units does: each has its own level."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from coordnet.fitting.channel_groups import Groups
from coordnet.noise.white import noise_level
from coordnet.restore.cleaners import Cleaned, Noise, Signal, cleaned, join_groups
from coordnet.restore.denoise_choice import Settled

# Ratio of the noise of two columns above which no level suits both. One level for all removes 0.9 dB of the noise of 34
# tables with larger ratios, and 0.6 dB of 30 that were held out; levels apart 8.8 and 6.7 dB, and 1.0 dB less at worst.
# Related columns with noise of one size are better together, by up to 11 dB where the noise hides most of them.
MOST_RATIO = 2.0


class ColumnsApart(NamedTuple):
    """Groups of columns with noise of about one size, and what was decided on each of them."""

    groups: Groups
    decided: list[Settled]

    @classmethod
    def of(cls, values: Float[Tensor, "rows columns"], settle: Callable[[Signal], Settled]) -> "ColumnsApart":
        """Return the groups of columns, on each of which ``settle`` decides.

        A column that never falls, or never rises, such as a time or a counter, has no noise: its steps are no errors.
        """
        levels = torch.tensor([0.0 if _is_monotone(f) else noise_level(f.unsqueeze(1)) for f in values.T])
        ascending, order = levels.sort()
        starts = (ascending[1:] > MOST_RATIO * ascending[:-1]).cumsum(0)
        labels = torch.cat([starts[:0].new_zeros(1), starts])[order.argsort()]
        groups = [labels == k for k in labels.unique()]
        decided = [settle(values[..., group]) for group in groups]
        none = Noise(0.0, given=False)
        noisy = (bool((levels[group] > 0).all()) for group in groups)
        return cls(groups, [own if has else own._replace(noise=none) for own, has in zip(decided, noisy, strict=True)])

    @property
    def together(self) -> Settled:
        """The decision on the first noisy group, with noise of the mean variance of all columns."""
        first = next((own for own in self.decided if own.noise.level > 0), self.decided[0])
        if len(self.groups) == 1:
            return first
        variances = torch.cat([own.noise.level * own.noise.level * g[g] for g, own in zip(*self, strict=True)])
        return Settled(first.prior, Noise(math.sqrt(float(variances.mean())), given=False), None)

    @property
    def without_noise(self) -> Bool[Tensor, " columns"]:
        """The columns that stay as they are."""
        kept = [group for group, own in zip(*self, strict=True) if own.noise.level == 0]
        return torch.stack([torch.zeros_like(self.groups[0]), *kept]).any(0)

    def cleaned(self, signal: Signal) -> Cleaned:
        """Return the estimates of all groups, each by the prior and for the noise that were decided on it."""
        made = [cleaned(own.prior, signal[..., group], own.noise) for group, own in zip(*self, strict=True)]
        return join_groups(made, self.groups)


def _is_monotone(column: Float[Tensor, " rows"]) -> bool:
    steps = column.diff()
    return bool((steps >= 0).all() or (steps <= 0).all())
