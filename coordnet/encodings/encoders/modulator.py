"""The modulator of Li et al. (NeurIPS 2021): a small network that follows the features of a position."""

import itertools

import torch
from torch import Tensor, nn

from coordnet import _checks


class Modulator(nn.Sequential):
    """GeLU(F W₁ + B₁) W₂ + B₂ for rows F of ``inputs`` features; the result has ``features`` columns.

    ``hidden`` is the number of columns of W₁. ``layer_norm`` normalizes the input of each dense layer, and ``dropout``
    drops a share of the hidden values in training, both as in the authors' experiments on images. The weights and
    biases are uniform within ±1/√(rows), drawn by the ``generator``. A ``ValueError`` is raised if an argument is out
    of its range.

    Source: Li et al. (NeurIPS 2021), algorithm 1, lines 2 and 3; their first version has ReLU.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        features: int,
        generator: torch.Generator,
        *,
        layer_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        if not 0 <= _checks.nonnegative("dropout", dropout) < 1:
            raise _checks.wrong("dropout", "a share below 1", dropout)
        sizes = (inputs, _checks.integer("hidden", hidden, 1), _checks.integer("features", features, 1))
        first, last = [_drawn(fan_in, fan_out, generator) for fan_in, fan_out in itertools.pairwise(sizes)]
        if layer_norm:
            first, last = nn.Sequential(nn.LayerNorm(inputs), first), nn.Sequential(nn.LayerNorm(hidden), last)
        super().__init__(first, nn.Sequential(nn.GELU(), nn.Dropout(dropout)), last)


def _drawn(fan_in: int, fan_out: int, generator: torch.Generator) -> nn.Module:
    layer = nn.utils.skip_init(nn.Linear, fan_in, fan_out)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -(fan_in**-0.5), fan_in**-0.5, generator=generator)
    return layer


def cast_to_input(module: nn.Module, x: Tensor) -> Tensor:
    """Return a module's output for rows x, with its parameters in the dtype and on the device of x."""
    weights = {name: value.to(x) for name, value in module.named_parameters()}
    return torch.func.functional_call(module, weights, (x,))
