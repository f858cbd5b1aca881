"""The exact gradient of the return for softmax policies: what every sampled policy gradient estimates.

J = start' V, where V solves V = r + gamma P V for the policy softmax(logits); the gradient is taken through the solve,
in double precision, whatever the program around it uses.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.agents.mdp import checks
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Scalar
from chainrule.kernels.precision import in_double


def expected_return(
    logits: Float[Array, "states actions"],
    P: Float[Array, "states actions states"],
    r: Float[Array, "states actions"],
    start: Float[Array, "states"],
    gamma: Any,
) -> Scalar:
    """The return J of a softmax policy from a distribution of starts: a function of arrays, with all derivatives."""
    policy = jax.nn.softmax(logits, axis=-1)
    moves = jnp.einsum("sa,sat->st", policy, P)
    values = jnp.linalg.solve(jnp.eye(len(r), dtype=moves.dtype) - gamma * moves, (policy * r).sum(-1))
    return start @ values


@in_double
@jax.jit
def _value_and_gradient(logits: Array, P: Array, r: Array, start: Array, gamma: Array) -> Any:
    return jax.value_and_grad(expected_return)(logits, P, r, start, gamma)


def policy_gradient(
    logits: Any, P: Any, r: Any, gamma: Any, start: Any
) -> tuple[float, Float[np.ndarray, "states actions"]]:
    """The return of softmax(logits), and its exact gradient in the logits.

    Two arms that pay 1 and 0, pulled once and equally often:

    >>> value, gradient = policy_gradient([[0.0, 0.0]], np.zeros((1, 2, 1)), [[1.0, 0.0]], 0.9, [1.0])
    >>> value, gradient.tolist()
    (0.5, [[0.25, -0.25]])
    """
    where = "policy_gradient"
    transition, rewards = checks.process_arrays(where, P, r)
    gamma = checks.discount(where, gamma)
    given = {"logits": np.asarray(logits, np.float64), "start": np.asarray(start, np.float64)}
    for name, shape in (("logits", rewards.shape), ("start", rewards.shape[:1])):
        if given[name].shape != shape:
            raise ArgumentError(f"{where}({name}): shape {given[name].shape}, but P and r need {shape}")
    value, gradient = _value_and_gradient(
        given["logits"], transition, rewards, given["start"], np.asarray(gamma)
    )
    if not np.isfinite(gradient).all():
        everything = range(len(rewards))
        names = checks.state_names(where, (), len(rewards))
        raise checks.endless(where, everything, names, "the policy may never end among")
    return float(value), gradient


__all__ = ["expected_return", "policy_gradient"]
