"""Walks back along a chain of tokens, from nothing kept to codes of new examples, all places at once."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Int, Key

if TYPE_CHECKING:
    from chainrule.models.diffusion.vq_diffusion.model import TokenModel


@eqx.filter_jit
def drawn(
    model: "TokenModel", key: Key, n: int, condition: Any, steps: Array, guidance: Array, temperature: Array
) -> Array:
    """`n` examples from the codes that a walk arrives at; one program serves walks of every length."""
    rows = walked(model, key, n, condition, steps, guidance, temperature)
    return model.decode_indices(rows.reshape(n, *model.code_shape))


def walked(
    model: "TokenModel", key: Key, n: int, condition: Any, steps: Array, guidance: Array, temperature: Array
) -> Int[Array, "n locations"]:
    """`n` rows of codes from the noisy end of the chain, in steps of equal time."""
    chain, locations = model.chain, len(model.network.positions)
    begin, walk = jax.random.split(key)
    start = jax.random.categorical(begin, jnp.log(chain.rest()), shape=(n, locations)).astype(jnp.int32)

    def step(number: Array, x: Array) -> Array:
        t, earlier = 1 - number / steps, jnp.maximum(1 - (number + 1) / steps, 0)
        logs = jax.nn.log_softmax(_guided(model, x, chain.kept(t), condition, guidance) / temperature)
        probs = chain.posterior(x, model.probs(logs), t, earlier)
        return jax.random.categorical(jax.random.fold_in(walk, number), jnp.log(probs)).astype(x.dtype)

    return jax.lax.fori_loop(0, steps, step, start)


def _guided(model: "TokenModel", x: Array, kept: Array, condition: Any, guidance: Array) -> Array:
    """Log-probabilities of clean codes: `w` times those given the condition, `1 - w` times those without."""
    encoder = model.network.embedding.condition
    if condition is None or encoder is None or model.needs_condition:
        return jax.nn.log_softmax(model.network(x, kept, condition))
    both = jnp.concatenate([condition, encoder.null(len(x)).astype(condition.dtype)])
    logs = jax.nn.log_softmax(model.network(jnp.concatenate([x, x]), kept, both))
    given, nothing = jnp.split(logs, 2)
    return guidance * given + (1 - guidance) * nothing


__all__ = ["drawn", "walked"]
