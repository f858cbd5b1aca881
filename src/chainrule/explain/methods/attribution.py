"""Direct logit attribution: how much each head, each MLP and the embedding add to a logit (Elhage et al., 2021).

The residual stream of a pre-norm transformer is a sum, and logits are read from it by the final normalisation and an
affine map. With the scale of that normalisation held at the value it has, logits are a sum too: one number for every
head, every MLP, the embedding and the biases, and they add up to the logit exactly. What a head does through later
layers is not counted: see `patching` and `ablation`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from jaxtyping import Int as Whole

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Int
from chainrule.explain.methods.activations import watched_run
from chainrule.models.protocol import HasResidualStream
from chainrule.nn import LayerNorm, Norm, RMSNorm
from chainrule.nn.attention import SelfAttention


@final
@dataclass(frozen=True)
class Attribution:
    """What each component adds to a logit at every position."""

    names: tuple[str, ...]
    """The embedding, positions where they are added, then by layer its heads, the bias of its attention, its MLP; last
    what does not depend on the text: shifts and biases of the output."""
    values: Float[np.ndarray, "components batch time"]
    logits: Float[np.ndarray, "batch time"]
    """What the values add up to."""


def logit_attribution(
    model: HasResidualStream,
    x: Int[Array, "batch time"] | Whole[np.ndarray, "batch time"],
    tokens: Int[Array, "batch time"] | Whole[np.ndarray, "batch time"],
    against: Literal["nothing", "mean"] | Int[Array, "batch time"] | Whole[np.ndarray, "batch time"] = "mean",
) -> Attribution:
    """The contributions to the logits of `tokens` after each position of `x`.

    Logits mean something only beside each other: `against` is what is subtracted, the mean over the vocabulary, the
    logits of other tokens, or nothing.
    """
    if any(block.norm_at == "post" for block in model.blocks):
        raise CapabilityError(
            "blocks that normalise the sum leave no sum to take apart",
            remedy="direct attribution needs normalisation before each part: preset=modern",
        )
    tokens = jnp.asarray(tokens)
    other = against if isinstance(against, str) else jnp.asarray(against)
    found = _attributed(model, jnp.asarray(x), tokens, other)
    names, values, logits = found
    return Attribution(names.names, np.asarray(values), np.asarray(logits))


@final
class _Named(eqx.Module):
    names: tuple[str, ...] = eqx.field(static=True)


@eqx.filter_jit
def _attributed(
    model: HasResidualStream, x: Array, tokens: Array, against: str | Array
) -> tuple[_Named, Array, Array]:
    last = len(model.blocks) - 1
    wanted = ["embedding", "blocks.0.resid_pre", f"blocks.{last}.resid_post", "features"]
    wanted += [f"blocks.{i}.{name}" for i in range(last + 1) for name in ("attention.z", "mlp_out")]
    _, found = watched_run(lambda: model.logits(x), {}, wanted)
    cache = dict(zip(found.names, found.values, strict=True))
    stream, features = cache[f"blocks.{last}.resid_post"], cache["features"]

    def judged(features: Array) -> Array:
        logits = model.read_out(features)
        chosen = jnp.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
        if isinstance(against, str):
            return chosen - logits.mean(axis=-1) if against == "mean" else chosen
        return chosen - jnp.take_along_axis(logits, against[..., None], axis=-1)[..., 0]

    # Logits are affine in the features and these, with the scale held, in the stream: directions, then a constant.
    total, back = jax.vjp(judged, features)
    (onto_features,) = back(jnp.ones_like(total))
    linear = frozen(model.norm, stream)
    (onto_stream,) = jax.vjp(linear, stream)[1](onto_features)
    constant = total - jnp.sum(onto_stream * stream, axis=-1)

    def along(vector: Array) -> Array:
        return jnp.sum(onto_stream * vector, axis=-1)

    embedding, start = cache["embedding"], cache["blocks.0.resid_pre"]
    parts = {"embedding": along(embedding)}
    if model.adds_positions:
        parts["positions"] = along(start - embedding)
    for i, block in enumerate(model.blocks):
        by_head = head_vectors(block.attention, cache[f"blocks.{i}.attention.z"])
        parts |= {f"layer {i + 1}, head {j + 1}": along(by_head[:, j]) for j in range(by_head.shape[1])}
        if block.attention.outward.bias is not None:
            parts[f"layer {i + 1}, bias"] = jnp.sum(
                onto_stream * block.attention.outward.bias[None, None], axis=-1
            )
        parts[f"layer {i + 1}, MLP"] = along(cache[f"blocks.{i}.mlp_out"])
    parts["constant"] = constant
    return _Named(tuple(parts)), jnp.stack(list(parts.values())), total


def head_vectors(
    attention: SelfAttention, z: Float[Array, "batch heads time size"]
) -> Float[Array, "batch heads time width"]:
    """What each head writes into the residual stream; with the bias of the output, their sum is what attention adds."""
    weight = attention.outward.weight.reshape(z.shape[1], z.shape[3], -1)
    return jnp.einsum("bhts,hsw->bhtw", z, weight.astype(z.dtype))


def frozen(norm: Norm | None, stream: Float[Array, "batch time width"]) -> Callable[[Array], Array]:
    """A normaliser with the scale it has at this stream: a linear function; its shift is left out."""
    if norm is None:
        return lambda vector: vector
    assert isinstance(norm, LayerNorm | RMSNorm)
    centred = isinstance(norm, LayerNorm)

    def moved(vector: Array) -> Array:
        return vector - vector.mean(axis=-1, keepdims=True) if centred else vector

    size = jax.lax.rsqrt(jnp.square(moved(stream)).mean(axis=-1, keepdims=True) + norm.eps)
    return lambda vector: moved(vector) * size * norm.scale[None, None, :]


__all__ = ["Attribution", "frozen", "head_vectors", "logit_attribution"]
