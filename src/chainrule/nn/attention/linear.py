"""Linear attention: weights are inner products of features, so sums over keys replace the table of scores.

`out_i = f(q_i) · S / f(q_i) · z` with `S = sum_j f(k_j) v_jᵀ` and `z = sum_j f(k_j)` (Katharopoulos et al., 2020). A
causal layer keeps running sums, so it is a recurrent network whose state never grows. Whole sequences go through in
chunks: sums carry what came before a chunk, a small table of scores the rest, and the sums at every step are never
stored. Where keys of a chunk dwarf those before them, so that sums of small weights vanish in the precision at hand,
its queries are gone through one by one.
"""

from typing import Literal, NamedTuple, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, CapabilityError, check_choice
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn.attention.cache import Cache
from chainrule.nn.attention.features import EluPlusOne, FeatureMap, finite
from chainrule.nn.attention.functions import Bias
from chainrule.nn.attention.masks import Causal, Mask, Padding
from chainrule.nn.attention.mixing import Mixing

_CHUNK = 128


@final
class Sums(Cache):
    """What linear attention remembers: sums over everything read, each feature's times `exp(-scale)`; of fixed size."""

    weighted: Float[Array, "batch heads features size"]
    total: Float[Array, "batch heads features"]
    scale: Float[Array, "batch heads features"]
    position: Int[Array, ""]

    @classmethod
    def empty(cls, batch: int, heads: int, features: int, size: int, dtype: jnp.dtype) -> Self:
        """Sums over nothing."""
        return cls(
            weighted=jnp.zeros((batch, heads, features, size), dtype),
            total=jnp.zeros((batch, heads, features), dtype),
            scale=jnp.full((batch, heads, features), -jnp.inf, dtype),
            position=jnp.zeros((), jnp.int32),
        )

    def fork(self, rows: Int[Array, " rows"]) -> Self:
        where = lambda one: (one.weighted, one.total, one.scale)  # noqa: E731
        return eqx.tree_at(where, self, tuple(x[rows] for x in where(self)))

    def rewind(self, position: int | Int[Array, ""]) -> Self:
        raise CapabilityError(
            f"sums cannot forget what was added to them, so there is no way back to {position}",
            remedy="start again and read the text up to that position",
        )


@final
class FeatureMixing(Mixing):
    """Mixing by features of queries and keys, in linear time: `EluPlusOne()` or `RandomFeatures()`.

    It knows causal order and padding; windows, packing, other masks and biases need the softmax. Rotated queries and
    keys depend on their distance alone only on average over random features, and not at all with `EluPlusOne`.
    """

    features: FeatureMap

    def __call__(
        self,
        query: Float[Array, "batch heads queries size"],
        key: Float[Array, "batch groups keys size"],
        value: Float[Array, "batch groups keys size"],
        *,
        mask: Mask | None = None,
        bias: Bias | None = None,
        dropout_key: Key | None = None,
    ) -> Float[Array, "batch heads queries size"]:
        del dropout_key  # there are no weights to drop
        causal, valid = _understood(mask, bias, key.shape[2])
        key, value = _for_all(key, query), _for_all(value, query)
        return linear_attention(query, key, value, features=self.features, causal=causal, valid=valid)

    def weights(
        self,
        query: Float[Array, "batch heads queries size"],
        key: Float[Array, "batch groups keys size"],
        *,
        mask: Mask | None = None,
        bias: Bias | None = None,
    ) -> Float[Array, "batch heads queries keys"]:
        causal, valid = _understood(mask, bias, key.shape[2])
        return _table(query, _for_all(key, query), self.features, causal, valid)

    def cache(
        self, batch: int, heads: int, groups: int, room: int, size: int, *, rolling: bool, dtype: jnp.dtype
    ) -> Cache:
        del groups, room
        if rolling:
            raise CapabilityError(
                "linear attention cannot forget its oldest tokens, so its cache cannot roll",
                remedy="it needs no room: leave rolling out",
            )
        return Sums.empty(batch, heads, self.features.count(size), size, dtype)

    def advance(
        self,
        query: Float[Array, "batch heads time size"],
        key: Float[Array, "batch groups time size"],
        value: Float[Array, "batch groups time size"],
        cache: Cache,
        *,
        mask: Mask | None = None,
        bias: Bias | None = None,
    ) -> tuple[Float[Array, "batch heads time size"], Cache]:
        assert isinstance(cache, Sums)
        _, valid = _understood(mask, bias, 0)
        time = query.shape[2]
        if valid is not None:
            valid = jnp.take(valid, cache.position + jnp.arange(time), axis=1, mode="fill", fill_value=True)
        key, value = _for_all(key, query), _for_all(value, query)
        return _causal(query, key, value, self.features, valid, cache, min(time, _CHUNK))


def linear_attention(
    query: Float[Array, "batch heads queries size"],
    key: Float[Array, "batch heads keys size"],
    value: Float[Array, "batch heads keys outputs"],
    *,
    features: FeatureMap | None = None,
    causal: bool = False,
    valid: Bool[Array, "batch keys"] | None = None,
    form: Literal["chunked", "scan", "quadratic"] = "chunked",
) -> Float[Array, "batch heads queries outputs"]:
    """Means of the values weighted by inner products of features; `valid` marks the keys that may be seen.

    The forms are three ways to the same numbers: through the whole table of weights, token by token, or by chunks.

    >>> keys, values = (jnp.array(x).reshape(1, 1, 3, 1) for x in ([0.0, 1.0, -1.0], [1.0, 2.0, 3.0]))
    >>> float(linear_attention(jnp.zeros((1, 1, 1, 1)), keys, values)[0, 0, 0, 0])  # weights 1, 2 and exp(-1)
    1.8123...
    """
    check_choice("linear_attention", "form", form, ("chunked", "scan", "quadratic"))
    features = EluPlusOne() if features is None else features
    if form == "quadratic":
        return _table(query, key, features, causal, valid) @ value
    if not causal:
        f, top = _keys(features, key, valid)
        queried = features.of_queries(query, top)
        sums = jnp.einsum("bhkf,bhkd->bhfd", f, value)
        return _ratio(queried @ sums, jnp.einsum("bhqf,bhf->bhq", queried, f.sum(axis=2)))
    batch, heads, time, _ = query.shape
    if key.shape[2] != time:
        raise ArgumentError(f"linear_attention: {time} queries and {key.shape[2]} keys have no common order")
    start = Sums.empty(batch, heads, features.count(query.shape[-1]), value.shape[-1], value.dtype)
    return _causal(query, key, value, features, valid, start, 1 if form == "scan" else min(time, _CHUNK))[0]


def _causal(
    query: Array,
    key: Array,
    value: Array,
    features: FeatureMap,
    valid: Array | None,
    sums: Sums,
    chunk: int,
) -> tuple[Array, Sums]:
    batch, _, time, _ = query.shape
    count = -(-time // chunk)
    real = jnp.ones((batch, time), bool) if valid is None else valid
    blocks = (_blocks(query, count, chunk), _blocks(key, count, chunk), _blocks(value, count, chunk))
    real = jnp.pad(real, ((0, 0), (0, count * chunk - time))).reshape(batch, count, chunk).swapaxes(0, 1)
    before = Causal().table(chunk, chunk)[None, None]

    @jax.checkpoint
    def step(
        carry: tuple[Array, Array, Array], inputs: tuple[Array, ...]
    ) -> tuple[tuple[Array, Array, Array], Array]:
        weighted, total, scale = carry
        q, k, v, some = inputs
        f, top = _keys(features, k, some)
        new = jnp.maximum(scale, top)
        queried = features.of_queries(q, new)
        old_factor, factor = jnp.exp(scale - finite(new)), jnp.exp(top - finite(new))
        held = _Held(weighted, total, scale)
        weighted, total = weighted * old_factor[..., None], total * old_factor
        f = f * factor[..., None, :]
        inside = jnp.where(before, jnp.einsum("bhqf,bhkf->bhqk", queried, f), 0)
        below = jnp.einsum("bhqf,bhf->bhq", queried, total) + inside.sum(axis=-1)
        out = _ratio(queried @ weighted + inside @ v, below)
        if chunk > 1:
            seen = jnp.isfinite(scale).any(axis=-1)[..., None] | (jnp.cumsum(some, axis=1) > 0)[:, None, :]
            dwarfed = jnp.any(seen & (below < _small(below)))
            logs = features.logs(q), _valid_logs(features, k, some)
            out = jax.lax.cond(dwarfed, lambda: _one_by_one(*logs, v, held), lambda: out)
        return (weighted + jnp.einsum("bhkf,bhkd->bhfd", f, v), total + f.sum(axis=2), new), out

    carry, out = jax.lax.scan(step, (sums.weighted, sums.total, sums.scale), (*blocks, real))
    joined = jnp.moveaxis(out, 0, 2).reshape(*query.shape[:2], count * chunk, value.shape[-1])[:, :, :time]
    return joined, Sums(weighted=carry[0], total=carry[1], scale=carry[2], position=sums.position + time)


def _table(query: Array, key: Array, features: FeatureMap, causal: bool, valid: Array | None) -> Array:
    f, top = _keys(features, key, valid)
    weights = jnp.einsum("bhqf,bhkf->bhqk", features.of_queries(query, top), f)
    if not causal:
        return _ratio(weights, weights.sum(axis=-1))
    visible = Causal().table(*weights.shape[2:])
    weights = jnp.where(visible[None, None], weights, 0)
    real = jnp.ones((len(key), key.shape[2]), bool) if valid is None else valid
    seen = (visible[None, None] & real[:, None, None, :]).any(axis=-1)
    below = weights.sum(axis=-1)
    logs = features.logs(query), _valid_logs(features, key, real)

    def again() -> Array:
        rows = jax.lax.map(
            lambda row: _row_weights(row[0], row[1], logs[1])[0], (jnp.moveaxis(logs[0], 2, 0), visible)
        )
        found = jnp.moveaxis(rows, 0, 2)
        return _ratio(found, found.sum(axis=-1))

    dwarfed = jnp.any(seen & (below < _small(below)))
    return jax.lax.cond(dwarfed, again, lambda: _ratio(weights, below))


class _Held(NamedTuple):
    """Sums over the keys before a chunk, as `Sums` holds them."""

    weighted: Float[Array, "batch heads features size"]
    total: Float[Array, "batch heads features"]
    scale: Float[Array, "batch heads features"]


def _one_by_one(queries: Array, keys: Array, value: Array, held: _Held) -> Array:
    """What the queries of a chunk gather where later keys dwarf all that some of them see: each by its own largest.

    `queries` and `keys` are logarithms of features.
    """
    visible = Causal().table(queries.shape[2], keys.shape[2])

    @jax.checkpoint
    def row(inputs: tuple[Array, Array]) -> Array:
        weights, factors = _row_weights(*inputs, keys, held.scale)
        above = jnp.einsum("bhk,bhkd->bhd", weights, value) + jnp.einsum(
            "bhf,bhfd->bhd", factors, held.weighted
        )
        return _ratio(above, weights.sum(axis=-1) + (factors * held.total).sum(axis=-1))

    return jnp.moveaxis(jax.lax.map(row, (jnp.moveaxis(queries, 2, 0), visible)), 0, 2)


def _row_weights(
    query: Float[Array, "batch heads features"],
    visible: Bool[Array, " keys"],
    keys: Float[Array, "batch heads keys features"],
    scale: Float[Array, "batch heads features"] | None = None,
) -> tuple[Float[Array, "batch heads keys"], Float[Array, "batch heads features"]]:
    """The weights of the keys that one query sees, and what sums of that scale are to be multiplied by."""
    exponents = query[:, :, None, :] + jnp.where(visible[None, None, :, None], keys, -jnp.inf)
    before = jnp.full(query.shape, -jnp.inf, query.dtype) if scale is None else query + scale
    top = jnp.maximum(exponents.max(axis=(-2, -1)), before.max(axis=-1))
    top = jax.lax.stop_gradient(finite(top))
    return jnp.exp(exponents - top[..., None, None]).sum(axis=-1), jnp.exp(before - top[..., None])


def _valid_logs(features: FeatureMap, key: Array, valid: Array) -> Array:
    logs = features.logs(key)
    return jnp.where(jnp.broadcast_to(valid[:, None, :, None], logs.shape), logs, -jnp.inf)


def _small(sums: Array) -> float:
    """Below this a sum of weights has lost terms to underflow."""
    return float(jnp.finfo(sums.dtype).tiny) ** 0.5


def _keys(features: FeatureMap, key: Array, valid: Array | None) -> tuple[Array, Array]:
    return features.of_keys(key, None if valid is None else valid[:, None, :])


def _ratio(above: Array, below: Array) -> Array:
    return above / jnp.where(below == 0, 1, below)[..., None]


def _blocks(x: Array, count: int, chunk: int) -> Array:
    batch, heads, time, size = x.shape
    padded = jnp.pad(x, ((0, 0), (0, 0), (0, count * chunk - time), (0, 0)))
    return jnp.moveaxis(padded.reshape(batch, heads, count, chunk, size), 2, 0)


def _for_all(x: Array, query: Array) -> Array:
    """Keys or values of groups, once for every head."""
    return x if x.shape[1] == query.shape[1] else jnp.repeat(x, query.shape[1] // x.shape[1], axis=1)


def _understood(mask: Mask | None, bias: Bias | None, keys: int) -> tuple[bool, Array | None]:
    """Whether order matters, and which keys are there."""
    parts = () if mask is None else mask.parts()
    other = [type(part).__name__ for part in parts if not isinstance(part, Causal | Padding)]
    if other or bias is not None:
        raise ArgumentError(
            f"attention by features cannot follow {', '.join(other) or 'a bias of scores'}: it has no scores",
            remedy="use softmax attention, or only causal and padding masks",
        )
    valid = None
    for part in parts:
        if isinstance(part, Padding):
            valid = part.valid if valid is None else valid & part.valid
    if valid is not None and keys > valid.shape[1]:
        valid = jnp.pad(valid, ((0, 0), (0, keys - valid.shape[1])), constant_values=True)
    return any(isinstance(part, Causal) for part in parts), valid


__all__ = ["FeatureMixing", "Sums", "linear_attention"]
