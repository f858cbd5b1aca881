"""Direct logit attribution: how much each head, each MLP and the embedding add to a logit (Elhage et al., 2021).

The residual stream of a pre-norm transformer is a sum, and logits are read from it by the final normalisation and an
affine map. With the scale of that normalisation held at the value it has, logits are a sum too: one number for every
head, every MLP, the embedding and the biases, and they add up to the logit exactly. What a head does through later
layers is not counted: see `patching` and `ablation`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

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
from chainrule.nn.attention import CrossAttention, SelfAttention


@final
@dataclass(frozen=True)
class Attribution:
    """What each component adds to a logit at every position."""

    names: tuple[str, ...]
    """The embedding, positions where they are added, then by layer its heads, the bias of its attention, the same of
    its attention to a source, its MLP; last what does not depend on the input: shifts and biases of the output."""
    values: Float[np.ndarray, "components batch time"]
    logits: Float[np.ndarray, "batch time"]
    """What the values add up to."""


def logit_attribution(
    model: HasResidualStream,
    x: Array | np.ndarray | Sequence[Array | np.ndarray],
    tokens: Int[Array, "batch time"] | Whole[np.ndarray, "batch time"],
    against: Literal["nothing", "mean"] | Int[Array, "batch time"] | Whole[np.ndarray, "batch time"] = "mean",
) -> Attribution:
    """The contributions to the logits of `tokens` at each position of the stream that `x` gives.

    `x` is what `model.stream_logits` takes: tokens of a text, images, or (source, target) of a translator, whose
    decoder is taken apart, the heads that look at the source included; `model.questions` makes `x` and `tokens` of
    examples. Logits mean something only beside each other: `against` is what is subtracted, the mean over the
    vocabulary, the logits of other tokens, or nothing.
    """
    _check_sum(model)
    other = against if isinstance(against, str) else jnp.asarray(against)
    names, values, logits = _attributed(model, _inputs(x), jnp.asarray(tokens), other)
    return Attribution(names.names, np.asarray(values), np.asarray(logits))


def source_attribution(
    model: HasResidualStream,
    x: Array | np.ndarray | Sequence[Array | np.ndarray],
    tokens: Int[Array, "batch time"] | Whole[np.ndarray, "batch time"],
    position: int = 0,
) -> Float[np.ndarray, "layers heads batch source"]:
    """What each head brings from each position to the logit at one position, above the mean logit.

    Summed over sources it is what `logit_attribution` gives the head.
    """
    _check_sum(model)
    return np.asarray(_from_sources(model, _inputs(x), jnp.asarray(tokens), position))


def _inputs(x: Array | np.ndarray | Sequence[Array | np.ndarray]) -> tuple[Array, ...]:
    return tuple(map(jnp.asarray, x)) if isinstance(x, tuple | list) else (jnp.asarray(x),)


def _check_sum(model: HasResidualStream) -> None:
    if any(block.norm_at == "post" for block in model.residual_stream().blocks):
        raise CapabilityError(
            "blocks that normalise the sum leave no sum to take apart",
            remedy="direct attribution needs normalisation before each part: preset=modern",
        )


@final
class _Named(eqx.Module):
    names: tuple[str, ...] = eqx.field(static=True)


class _Direction(NamedTuple):
    """A logit as an affine function of the stream, with the scale of the last normalisation held."""

    cache: Mapping[str, Array]
    along: Callable[[Array], Array]
    """What a vector in the stream adds to the logit at its position."""
    onto_stream: Array
    constant: Array
    total: Array


def _direction(
    model: HasResidualStream,
    inputs: tuple[Array, ...],
    tokens: Array,
    against: str | Array,
    more: tuple[str, ...] = (),
) -> _Direction:
    layers = model.residual_stream()
    first, last = f"{layers.names[0]}.resid_pre", f"{layers.names[-1]}.resid_post"
    wanted = [layers.embedding, first, last, "features"]
    for name, block in zip(layers.names, layers.blocks, strict=True):
        parts = ("attention.z", "mlp_out", *(("cross.z",) if block.cross is not None else ()), *more)
        wanted += [f"{name}.{part}" for part in parts]
    _, found = watched_run(lambda: model.stream_logits(*inputs), {}, wanted)
    cache = dict(zip(found.names, found.values, strict=True))
    stream, features = cache[last], cache["features"]

    def judged(features: Array) -> Array:
        logits = model.read_out(features)
        chosen = jnp.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
        if isinstance(against, str):
            return chosen - logits.mean(axis=-1) if against == "mean" else chosen
        return chosen - jnp.take_along_axis(logits, against[..., None], axis=-1)[..., 0]

    # Logits are affine in the features and these, with the scale held, in the stream: directions, then a constant.
    total, back = jax.vjp(judged, features)
    (onto_features,) = back(jnp.ones_like(total))
    (onto_stream,) = jax.vjp(frozen(layers.norm, stream), stream)[1](onto_features)

    def along(vector: Array) -> Array:
        return jnp.sum(onto_stream * vector, axis=-1)

    return _Direction(cache, along, onto_stream, total - along(stream), total)


@eqx.filter_jit
def _attributed(
    model: HasResidualStream, inputs: tuple[Array, ...], tokens: Array, against: str | Array
) -> tuple[_Named, Array, Array]:
    layers = model.residual_stream()
    cache, along, _, constant, total = _direction(model, inputs, tokens, against)
    embedding, start = cache[layers.embedding], cache[f"{layers.names[0]}.resid_pre"]
    parts = {"embedding": along(embedding)}
    if model.adds_positions:
        parts["positions"] = along(start - embedding)
    for i, (name, block) in enumerate(zip(layers.names, layers.blocks, strict=True)):
        heads = f"layer {i + 1}, head", f"layer {i + 1}, bias"
        parts |= _by_head(heads, block.attention, cache[f"{name}.attention.z"], along)
        if block.cross is not None:
            heads = f"layer {i + 1}, cross head", f"layer {i + 1}, cross bias"
            parts |= _by_head(heads, block.cross, cache[f"{name}.cross.z"], along)
        parts[f"layer {i + 1}, MLP"] = along(cache[f"{name}.mlp_out"])
    parts["constant"] = constant
    return _Named(tuple(parts)), jnp.stack(list(parts.values())), total


def _by_head(
    called: tuple[str, str],
    attention: SelfAttention | CrossAttention,
    z: Float[Array, "batch heads time size"],
    along: Callable[[Array], Array],
) -> dict[str, Array]:
    """What each head of a layer adds, and its bias."""
    head, bias = called
    by_head = head_vectors(attention, z)
    parts = {f"{head} {j + 1}": along(by_head[:, j]) for j in range(by_head.shape[1])}
    if attention.outward.bias is not None:
        parts[bias] = along(attention.outward.bias[None, None])
    return parts


@eqx.filter_jit
def _from_sources(model: HasResidualStream, inputs: tuple[Array, ...], tokens: Array, position: int) -> Array:
    layers = model.residual_stream()
    found = _direction(model, inputs, tokens, "mean", ("attention.pattern", "attention.v"))
    onto = found.onto_stream[:, position]
    brought = []
    for name, block in zip(layers.names, layers.blocks, strict=True):
        pattern, v = (found.cache[f"{name}.attention.{part}"] for part in ("pattern", "v"))
        # Groups of heads may share keys and values.
        written = head_vectors(block.attention, jnp.repeat(v, pattern.shape[1] // v.shape[1], axis=1))
        brought.append(jnp.einsum("bhs,bhsw,bw->hbs", pattern[:, :, position], written, onto))
    return jnp.stack(brought)


def head_vectors(
    attention: SelfAttention | CrossAttention, z: Float[Array, "batch heads time size"]
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


__all__ = ["Attribution", "frozen", "head_vectors", "logit_attribution", "source_attribution"]
