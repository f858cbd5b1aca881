"""The transformer block: attention, then a feed-forward network at each position (Vaswani et al., 2017).

Normalisation stands before each of the two by default, which trains without warm-up tricks (Xiong et al., 2020), or
after their sum, as in the original. A decoder's block also gathers from a source in between.
"""

from collections.abc import Sequence
from typing import Literal, final

import equinox as eqx
import jax

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.nn.activations import activation as named_activation
from chainrule.nn.activations import swiglu
from chainrule.nn.attention.cache import Cache
from chainrule.nn.attention.layers import CrossAttention, SelfAttention, SourceMemory, linear
from chainrule.nn.attention.masks import Mask
from chainrule.nn.attention.mixing import Mixing, Softmax
from chainrule.nn.dropout import Dropout, StochasticDepth
from chainrule.nn.hooks import inside, tap
from chainrule.nn.linear import Linear
from chainrule.nn.normalize import LayerNorm, Norm, RMSNorm
from chainrule.nn.positions import Positions


@final
class TransformerBlock(eqx.Module):
    """`x + attention(norm(x))`, then `x + feedforward(norm(x))`; or `norm(x + ...)` for both with `norm_at="post"`.

    The feed-forward part is `hidden` wide: four times the width, or 8/3 of it for `activation="swiglu"`, whose two
    halves of the wide layer are multiplied. `cross` adds attention to a source of that width between the two. Weights
    start at N(0, 0.02²); those that write into the sum, at 0.02 / sqrt(2 `layers`), so that the sum of a stack of so
    many blocks does not grow with its depth (Radford et al., 2019). Dropout acts on attention weights and on what is
    added to the sum, and `stochastic_depth` drops all that a part adds for some examples, whenever a key is given.

    What it computes can be read and replaced by name (`nn.hooks`): the sum as it comes in, after each part and as it
    goes out (`resid_pre`, `resid_mid`, `resid_cross`, `resid_post`), what the parts add (`attn_out`, `cross_out`,
    `mlp_out`), `attention.q`, `.k`, `.v`, `.pattern`, `.z` (the same of `cross`), `mlp.pre` and `mlp.post`.

    >>> block = TransformerBlock(16, heads=4, causal=True, key=jax.random.key(0))
    >>> x = jax.random.normal(jax.random.key(1), (2, 7, 16))
    >>> advance = eqx.filter_jit(block.advance)
    >>> first, cache = advance(x[:, :4], block.cache(batch=2, room=7))
    >>> rest, cache = advance(x[:, 4:], cache)
    >>> whole = eqx.filter_jit(block)(x)
    >>> bool(jax.numpy.allclose(whole, jax.numpy.concatenate([first, rest], axis=1), atol=1e-6))
    True
    """

    first_norm: Norm
    attention: SelfAttention
    cross_norm: Norm | None
    cross: CrossAttention | None
    second_norm: Norm
    widen: Linear
    narrow: Linear
    norm_at: str = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    dropout: float = eqx.field(static=True)
    stochastic_depth: float = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        groups: int | None = None,
        causal: bool = False,
        window: int | None = None,
        positions: Positions | None = None,
        mixing: Mixing | None = None,
        cross: int | None = None,
        norm: str = "layer",
        norm_at: Literal["pre", "post"] = "pre",
        eps: float = 1e-5,
        activation: str = "gelu-tanh",
        hidden: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        stochastic_depth: float = 0.0,
        layers: int = 1,
        deviation: float = 0.02,
        key: Key,
    ) -> None:
        check_choice("TransformerBlock", "norm_at", norm_at, ("pre", "post"))
        width, keys = whole("TransformerBlock", "width", width), jax.random.split(key, 4)
        into_sum = deviation / (2 * layers) ** 0.5
        self.first_norm, self.second_norm = (_norm(norm, width, eps, bias) for _ in range(2))
        self.attention = SelfAttention(
            width,
            heads=heads,
            groups=groups,
            causal=causal,
            window=window,
            positions=positions,
            mixing=Softmax(dropout=dropout) if mixing is None else mixing,
            bias=bias,
            deviation=deviation,
            outward_deviation=into_sum,
            key=keys[0],
        )
        if cross is not None:
            self.cross_norm = _norm(norm, width, eps, bias)
            self.cross = CrossAttention(
                width,
                source=cross,
                heads=heads,
                bias=bias,
                dropout=dropout,
                deviation=deviation,
                outward_deviation=into_sum,
                key=keys[3],
            )
        else:
            self.cross_norm = self.cross = None
        gated = activation == "swiglu"
        hidden = hidden or (8 * round(width / 3) if gated else 4 * width)
        self.widen = linear(width, (1 + gated) * hidden, deviation, bias, keys[1])
        self.narrow = linear(hidden, width, into_sum, bias, keys[2])
        self.norm_at, self.activation = norm_at, activation
        self.dropout, self.stochastic_depth = dropout, stochastic_depth

    def __call__(
        self,
        x: Float[Array, "*leading time width"],
        *,
        mask: Mask | None = None,
        memory: SourceMemory | None = None,
        dropout_key: Key | None = None,
    ) -> Float[Array, "*leading time width"]:
        """The positions after one round of gathering and thinking; `memory` is what `remember` made of the source."""
        keys = [None] * 5 if dropout_key is None else list(jax.random.split(dropout_key, 5))
        x = tap(x, "resid_pre")
        with inside("attention"):
            gathered = self.attention(self._before(self.first_norm, x), mask=mask, dropout_key=keys[0])
        return self._finished(x, gathered, memory, keys[1:])

    def remember(
        self, source: Float[Array, "batch source features"], *, mask: Mask | None = None
    ) -> SourceMemory:
        """What attention to a source needs of it; the same for every step of decoding, so computed once."""
        if self.cross is None:
            raise ArgumentError(
                "TransformerBlock.remember: the block was made without cross, the width of a source"
            )
        return self.cross.remember(source, mask=mask)

    def cache(self, batch: int, room: int, *, rolling: bool = False) -> Cache:
        """What the block remembers before the first of at most `room` tokens; rolling, of the last `room` of any."""
        return self.attention.cache(batch, room, rolling=rolling)

    def advance(
        self,
        x: Float[Array, "batch time width"],
        cache: Cache,
        *,
        mask: Mask | None = None,
        memory: SourceMemory | None = None,
    ) -> tuple[Float[Array, "batch time width"], Cache]:
        """The next positions, after those in the cache; the same numbers as the whole sequence would give them."""
        x = tap(x, "resid_pre")
        with inside("attention"):
            gathered, cache = self.attention.advance(self._before(self.first_norm, x), cache, mask=mask)
        return self._finished(x, gathered, memory, [None] * 4), cache

    def weights(
        self, x: Float[Array, "batch time width"], *, mask: Mask | None = None
    ) -> Float[Array, "batch heads time time"]:
        """How much each position takes from each, in every head."""
        return self.attention.weights(self._before(self.first_norm, x), mask=mask)

    def cross_weights(
        self, x: Float[Array, "batch time width"], memory: SourceMemory
    ) -> Float[Array, "batch heads time source"]:
        """How much each position takes from each of the source, in every head."""
        if self.cross is None or self.cross_norm is None:
            raise ArgumentError(
                "TransformerBlock.cross_weights: the block was made without cross, the width of a source"
            )
        gathered = self.attention(self._before(self.first_norm, x))
        queries = self._added(self.first_norm, x, gathered, None)
        return self.cross.weights(self._before(self.cross_norm, queries), memory)

    def _finished(
        self, x: Array, gathered: Array, memory: SourceMemory | None, keys: Sequence[Key | None]
    ) -> Array:
        """What the block gives, from what entered it and what attention gathered."""
        x = tap(self._added(self.first_norm, x, tap(gathered, "attn_out"), keys[0]), "resid_mid")
        if self.cross is not None and self.cross_norm is not None:
            if memory is None:
                raise ArgumentError(
                    "TransformerBlock: a block with cross needs a memory", remedy="block.remember(source)"
                )
            with inside("cross"):
                gathered = self.cross(self._before(self.cross_norm, x), memory, dropout_key=keys[1])
            x = tap(self._added(self.cross_norm, x, tap(gathered, "cross_out"), keys[2]), "resid_cross")
        with inside("mlp"):
            wide = tap(self.widen(self._before(self.second_norm, x)), "pre")
            wide = swiglu(wide) if self.activation == "swiglu" else named_activation(self.activation)(wide)
            wide = tap(wide, "post")
        return tap(self._added(self.second_norm, x, tap(self.narrow(wide), "mlp_out"), keys[3]), "resid_post")

    def _before(self, norm: Norm, x: Array) -> Array:
        return norm(x) if self.norm_at == "pre" else x

    def _added(self, norm: Norm, x: Array, branch: Array, key: Key | None) -> Array:
        if key is not None:
            branch = Dropout(self.dropout)(branch, key)
            branch = StochasticDepth(self.stochastic_depth)(branch, jax.random.fold_in(key, 1))
        return x + branch if self.norm_at == "pre" else norm(x + branch)


def _norm(name: str, width: int, eps: float, bias: bool) -> Norm:
    if name == "batch":
        raise ArgumentError(
            'TransformerBlock(norm="batch"): statistics over a batch mix examples and tell a position its future',
            remedy='use norm="layer" or norm="rms"',
        )
    check_choice("TransformerBlock", "norm", name, ("layer", "rms"))
    return LayerNorm(width, eps=eps, bias=bias) if name == "layer" else RMSNorm(width, eps=eps)


__all__ = ["TransformerBlock"]
