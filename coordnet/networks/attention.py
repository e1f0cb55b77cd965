"""Attention with positions: tokens with encoded positions, and a small Transformer that classifies them."""

from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from coordnet import _checks
from coordnet.encodings import Encoding
from coordnet.linalg.machine import as_generator

__docformat__ = "numpy"
__all__ = ["AttentionClassifier", "PositionedTokens", "initialize"]

Padding = Bool[Tensor, "batch tokens"]
Combine = Literal["add", "unprojected", "concatenate"]


class PositionedTokens(nn.Module):
    """Tokens t of some width at points x: t + P Ψ(x) with a trained P ("add"), t + Ψ(x) ("unprojected"), or [t, Ψ(x)].

    The last is "concatenate". P is drawn by the generator, by default that of ``torch.manual_seed``. A ``ValueError``
    is raised if an argument is out of its range, or the features or the points' coordinates do not fit.

    Vaswani et al. (NeurIPS 2017) and Idé et al. (2024) add Ψ as it is; Li et al. (NeurIPS 2021) add and concatenate.
    """

    def __init__(
        self, encoding: Encoding, width: int, combine: Combine = "add", generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.encoding = encoding
        self.combine = _checks.choice("combine", combine, get_args(Combine))
        features, self.width = encoding.features, _checks.integer("width", width, 1)
        if combine == "concatenate":
            self.width += features
        elif combine == "unprojected" and features != width:
            raise _checks.wrong("encoding", f"{width} features, the width of the tokens", features)
        self.projection = nn.utils.skip_init(nn.Linear, features, width) if combine == "add" else nn.Identity()
        initialize(self.projection, as_generator(generator))

    def forward(
        self,
        tokens: Float[Tensor, "batch tokens width"],
        positions: Float[Tensor, "batch tokens d"],
        padding: Padding | None = None,
    ) -> Float[Tensor, "batch tokens out"]:
        """Return the tokens with their positions, in units of the unit interval; zero where ``padding`` is true."""
        d = self.encoding.dimensions
        if positions.shape != (*tokens.shape[:2], d):
            raise _checks.wrong("positions", f"shape {(*tokens.shape[:2], d)}", tuple(positions.shape))
        code = self.projection(self.encoding(positions))
        out = torch.cat([tokens, code], dim=-1) if self.combine == "concatenate" else tokens + code
        return out if padding is None else out.masked_fill(padding.unsqueeze(-1), 0)


class AttentionClassifier(nn.Module):
    """A classifier of sets of tokens: embed, add or append positions, attend, average, map to logits.

    ``encoding`` and ``combine`` are those of ``PositionedTokens``; without an encoding the tokens have no order. A
    token has ``inputs`` numbers, and the number of logits is ``classes``. The heads divide the width, including that of
    an appended encoding. Dropout draws from the generator of ``torch.manual_seed``, the initial weights from
    ``generator``, by default the same. A ``ValueError`` is raised if an argument is out of its range.

    The encoder is that of Vaswani et al. (NeurIPS 2017), normalized before each sublayer (Xiong et al., ICML 2020).
    """

    def __init__(
        self,
        encoding: Encoding | None,
        inputs: int,
        classes: int,
        *,
        width: int = 32,
        depth: int = 2,
        heads: int = 4,
        combine: Combine = "add",
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("inputs", inputs), ("classes", classes), ("width", width), ("depth", depth)):
            _checks.integer(name, value, 1)
        generator = as_generator(generator)
        self.embedding = nn.utils.skip_init(nn.Linear, inputs, width)
        self.positioned = None if encoding is None else PositionedTokens(encoding, width, combine, generator)
        inner = width if self.positioned is None else self.positioned.width
        if inner % _checks.integer("heads", heads, 1):
            raise _checks.wrong("heads", f"a divisor of the width {inner}", heads)
        kind: dict[str, Any] = {"batch_first": True, "norm_first": True, "device": "meta"}
        layer = nn.TransformerEncoderLayer(inner, heads, 2 * inner, dropout, **kind).to_empty(device="cpu")
        self.transformer = nn.TransformerEncoder(layer, depth, nn.LayerNorm(inner), enable_nested_tensor=False)
        self.logits = nn.utils.skip_init(nn.Linear, inner, classes)
        for part in (self.embedding, self.transformer, self.logits):
            initialize(part, generator)

    def forward(
        self,
        tokens: Float[Tensor, "batch tokens inputs"],
        positions: Float[Tensor, "batch tokens d"],
        padding: Padding | None = None,
    ) -> Float[Tensor, "batch classes"]:
        """Return the logits; tokens where ``padding`` is true are ignored."""
        x = self.embedding(tokens)
        if self.positioned is not None:
            x = self.positioned(x, positions, padding)
        x = self.transformer(x, src_key_padding_mask=padding)
        if padding is None:
            return self.logits(x.mean(1))
        present = (~padding).to(x).unsqueeze(-1)
        return self.logits((x * present).sum(1) / present.sum(1).clamp(min=1))


def initialize(module: nn.Module, generator: torch.Generator) -> None:
    """Draw every matrix as Glorot and Bengio (AISTATS 2010) do; set biases to 0 and the scales of norms to 1."""
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1:
            nn.init.xavier_uniform_(parameter, generator=generator)
        else:
            nn.init.constant_(parameter, 1.0 if "norm" in name and name.endswith("weight") else 0.0)
