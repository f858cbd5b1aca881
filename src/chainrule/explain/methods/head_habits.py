"""Habits of attention heads: how widely they look, and how much at the token before or by induction.

An induction head attends to what followed the last occurrence of the current token, and so goes on with what was read
before (Olsson et al., 2022). Random tokens read twice show it: nothing else can be known about the second time.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.types import Array, Int, Key
from chainrule.models.protocol import HasAttention


def repeated_tokens(key: Key, vocabulary: int, period: int, n: int = 4) -> Int[Array, "n twice"]:
    """Rows of random tokens, all different where there are enough, and each read twice in the same order."""
    period = whole("repeated_tokens", "period", period, least=2)
    keys = jax.random.split(key, n)
    again = period > vocabulary
    once = jax.vmap(lambda key: jax.random.choice(key, vocabulary, (period,), replace=again))(keys)
    return jnp.concatenate([once, once], axis=1)


def induction_scores(
    model: HasAttention, key: Key, *, period: int = 16, n: int = 4
) -> Float[np.ndarray, "layers heads"]:
    """For every layer and head, the weight on what followed the current token the first time, for tokens read twice."""
    x = repeated_tokens(key, len(model.schema.tokens), period, n)
    weights = np.asarray(attention_weights(model, x))
    return habits(weights, weights)["induction"]


def habits(
    weights: Float[np.ndarray, "batch layers heads time time"],
    repeated: Float[np.ndarray, "others layers heads twice twice"],
) -> dict[str, Float[np.ndarray, "layers heads"]]:
    """Entropy, previous-token and induction score of each head; the last from weights on tokens read twice.

    >>> back = np.eye(4, k=-1)
    >>> back[0, 0] = 1
    >>> {name: float(v[0, 0]) for name, v in habits(back[None, None, None], back[None, None, None]).items()}
    {'entropy': 0.0, 'previous': 1.0, 'induction': 1.0}
    """
    logs = np.log(np.where(weights > 0, weights, 1.0))
    entropy = np.abs((weights * logs).sum(axis=-1)).mean(axis=(0, -1))
    previous = np.diagonal(weights, -1, axis1=-2, axis2=-1).mean(axis=(0, -1))
    period = repeated.shape[-1] // 2
    after = np.diagonal(repeated, 1 - period, axis1=-2, axis2=-1)
    # The first entry of that diagonal belongs to a token that has not come twice.
    return {"entropy": entropy, "previous": previous, "induction": after[..., 1:].mean(axis=(0, -1))}


@eqx.filter_jit
def attention_weights(model: Any, x: Array) -> Float[Array, "batch layers heads time time"]:
    """Those of a model, compiled."""
    return model.attention(x)


__all__ = ["attention_weights", "habits", "induction_scores", "repeated_tokens"]
