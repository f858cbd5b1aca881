"""Cost of a transformer from its sizes alone: parameters, multiply-adds and memory.

A multiply-add counts as two floating-point operations. With heads that fill the width and a feed-forward part four
times as wide, a layer takes `12 n d² + 2 n² d` multiply-adds for a sequence of n: the quadratic part overtakes the rest
at n = 6 d.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from chainrule.core.errors import ArgumentError


@final
@dataclass(frozen=True)
class TransformerSizes:
    """The sizes of a decoder-only transformer. `heads` is the number of heads, of which `groups` have own keys."""

    layers: int
    width: int
    heads: int
    context: int
    vocabulary: int
    groups: int | None = None
    hidden: int | None = None
    """Width of the feed-forward part; four times the width unless given."""
    gated: bool = False
    """Whether the feed-forward part multiplies two halves (SwiGLU), and so has three matrices."""
    bias: bool = True
    shifted: bool = True
    """Whether norms have a shift (with biases) beside their scale."""
    learned_positions: bool = True
    tied: bool = True
    """Whether the logits use the table of the embedding."""

    def __post_init__(self) -> None:
        if self.width % self.heads or self.heads % self.key_heads:
            raise ArgumentError(
                f"TransformerSizes(width={self.width}, heads={self.heads}, groups={self.groups}): these do not divide "
                "evenly"
            )

    @property
    def key_heads(self) -> int:
        """Heads that have keys and values of their own."""
        return self.heads if self.groups is None else self.groups

    @property
    def inner(self) -> int:
        """Width of the feed-forward part."""
        return 4 * self.width if self.hidden is None else self.hidden


@final
@dataclass(frozen=True)
class Cost:
    """What a forward pass over one sequence takes, and what has to be kept."""

    sizes: TransformerSizes
    time: int
    parameters: int
    multiply_adds: Mapping[str, int]
    """Of matrix products, over all layers, by what they are for."""
    elementwise: Mapping[str, int]
    """Operations on single numbers, over all layers, about, by what they are for."""
    cache: int
    """Numbers that decoding remembers at this length."""
    scores: int
    """Numbers in one layer's table of scores, where it is built."""

    @property
    def flops(self) -> int:
        """Operations of a forward pass in all: two for each multiply-add, one for each elementwise one."""
        return 2 * sum(self.multiply_adds.values()) + sum(self.elementwise.values())

    def __str__(self) -> str:
        rows = [
            ("parameters", f"{self.parameters:,}"),
            (
                "parameters in training",
                f"{16 * self.parameters / 2**20:,.1f} MiB (with gradient and Adam, 32 bits)",
            ),
            ("forward pass", f"{self.flops:.4g} FLOP for {self.time:,} tokens"),
            *((f"  {name}", f"{2 * count:.4g}") for name, count in self.multiply_adds.items()),
            ("  single numbers", f"{sum(self.elementwise.values()):.4g}"),
            ("cache", f"{self.cache:,} numbers, {4 * self.cache / 2**20:,.1f} MiB in 32 bits"),
            ("scores of a layer", f"{self.scores:,} numbers, {4 * self.scores / 2**20:,.1f} MiB in 32 bits"),
        ]
        width = max(len(name) for name, _ in rows) + 2
        return "\n".join(f"{name:{width}}{value}" for name, value in rows)


def cost(sizes: TransformerSizes, time: int | None = None) -> Cost:
    """What a transformer of these sizes costs on a sequence of `time` tokens (its whole context unless given).

    >>> gpt2 = TransformerSizes(layers=12, width=768, heads=12, context=1024, vocabulary=50257)
    >>> cost(gpt2).parameters
    124439808
    """
    n = sizes.context if time is None else time
    d, layers, inner = sizes.width, sizes.layers, sizes.inner
    size = d // sizes.heads
    matrices = 3 if sizes.gated else 2
    projected = (sizes.heads + 2 * sizes.key_heads) * size
    multiply_adds = {
        "queries, keys and values": layers * n * d * projected,
        "scores and means": layers * sizes.heads * n * n * 2 * size,
        "output of attention": layers * n * d * d,
        "feed-forward": layers * matrices * n * d * inner,
        "logits": n * d * sizes.vocabulary,
    }
    elementwise = {
        "softmax": layers * sizes.heads * n * n * 5,  # largest, difference, sum, quotient and the mask
        "activation": layers * n * inner * 9,
        "norms": (2 * layers + 1) * n * d * 8,
        "sums and biases": layers * n * (2 * d + sizes.bias * (projected + 2 * d + (matrices - 1) * inner)),
    }
    return Cost(
        sizes,
        n,
        _parameters(sizes, projected, matrices),
        multiply_adds,
        elementwise,
        2 * layers * n * sizes.key_heads * size,
        sizes.heads * n * n,
    )


def _parameters(sizes: TransformerSizes, projected: int, matrices: int) -> int:
    d, inner = sizes.width, sizes.inner
    norm = d * (1 + (sizes.bias and sizes.shifted))
    biases = sizes.bias * (projected + d + (matrices - 1) * inner + d)
    block = d * projected + d * d + matrices * d * inner + biases + 2 * norm
    tables = sizes.vocabulary * d * (1 if sizes.tied else 2) + sizes.learned_positions * sizes.context * d
    return tables + sizes.layers * block + norm


__all__ = ["Cost", "TransformerSizes", "cost"]
