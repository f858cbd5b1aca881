"""Importance-weighted bounds of the evidence, and the evidence itself from very many draws.

`L_k = E log mean_j w_j` with `w_j = p(x, z_j) / q(z_j | x)` grows with the number k of draws from the ELBO to log p(x)
(Burda, Grosse and Salakhutdinov, 2016). The plain gradient of q in it drowns in noise as k grows; the doubly
reparametrised one does not (Tucker et al., 2019).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import measured
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.monte_carlo.annealed import annealed_importance_sampling, hamiltonian_move
from chainrule.probability.monte_carlo.importance import WeightReport, weight_report
from chainrule.probability.variational.evidence import LogJoint


def importance_bound(log_weights: Float[Array, "draws *batch"]) -> Float[Array, "*batch"]:
    """The logarithm of the mean weight of each example: one draw of `L_k`, with its plain gradient.

    >>> round(float(importance_bound(jnp.log(jnp.array([1.0, 3.0])))), 6)  # log 2
    0.693147
    """
    return jax.nn.logsumexp(log_weights, axis=0) - math.log(len(log_weights))


def doubly_reparametrized_bound(
    log_weight: Callable[[Tree], Float[Array, "draws *batch"]], z: Tree
) -> Float[Array, "*batch"]:
    """The same value, with the doubly reparametrised gradient in the parameters of q.

    `z` holds the draws, `[draws, *batch, ...]`, as a differentiable function of the parameters of q. Nothing else may
    depend on these: `log_weight(z)` computes `log q` with the parameters held still (`jax.lax.stop_gradient`).
    The gradient of everything else in `log_weight`, of p above all, is the plain one. In reverse mode only.

    The share of a draw in the gradient that reaches q is the square of its normalised weight. No second evaluation is
    needed for that: the first power arrives with the gradient itself, and is known again from a summand of the weights
    that is zero.
    """
    shape = jax.eval_shape(log_weight, z)
    z, nothing = _with_squared_shares(z, jnp.zeros(shape.shape, shape.dtype))
    return importance_bound(log_weight(z) + nothing)


@jax.custom_vjp
def _with_squared_shares(z: Tree, nothing: Array) -> tuple[Tree, Array]:
    return z, nothing


def _forward(z: Tree, nothing: Array) -> tuple[tuple[Tree, Array], None]:
    return (z, nothing), None


def _backward(_: None, gradients: tuple[Tree, Array]) -> tuple[Tree, Array]:
    of_z, of_weights = gradients
    total = of_weights.sum(axis=0, keepdims=True)
    share = of_weights / jnp.where(total == 0, 1.0, total)

    def weighted(gradient: Array) -> Array:
        return gradient * share.reshape(*share.shape, *(1,) * (gradient.ndim - share.ndim))

    return jax.tree.map(weighted, of_z), jnp.zeros_like(of_weights)


_with_squared_shares.defvjp(_forward, _backward)


def chunked_log_weights(
    log_weights: Callable[[Key, int], Float[Array, "chunk *batch"]], key: Key, samples: int, chunk: int
) -> Float[Array, "samples *batch"]:
    """`samples` log-weights of each example, so many at a time that memory holds `chunk` of them.

    `log_weights(key, n)` draws n codes for each example and returns their log-weights. What that needs is kept for one
    chunk only; of the others the log-weights stay, one number for each draw.
    """
    samples, chunk = (
        whole("chunked_log_weights", "samples", samples),
        whole("chunked_log_weights", "chunk", chunk),
    )
    chunk = min(chunk, samples)
    keys = jax.random.split(key, -(-samples // chunk))
    _, found = jax.lax.scan(lambda _, one: (None, log_weights(one, chunk)), None, keys)
    return found.reshape(-1, *found.shape[2:])[:samples]


@final
class EvidenceEstimate(NamedTuple):
    """log p(x) of every example from importance weights, and how far it is to be trusted."""

    weights: WeightReport

    @property
    def log_prob(self) -> np.ndarray:
        """The estimate of each example: in expectation a lower bound of log p(x)."""
        return self.weights.log_mean

    @property
    def standard_error(self) -> np.ndarray:
        """Of the draws, for each example."""
        return self.weights.standard_error

    def __str__(self) -> str:
        """Negative log-likelihood, its errors, effective sample size, and what the tail of the weights says."""
        nats = -np.atleast_1d(self.log_prob)
        of_draws = math.sqrt(float(np.square(self.standard_error).sum())) / nats.size
        lines = [
            f"-log p(x)  {measured(float(nats.mean()), of_draws)} nats, an upper bound on the NLL in expectation",
            f"draws      {self.weights.draws:,} for each of {nats.size:,} examples; mean effective sample size "
            f"{float(np.mean(self.weights.effective_sample_size)):.1f}",
        ]
        if nats.size > 1:
            spread = float(nats.std(ddof=1)) / math.sqrt(nats.size)
            lines.append(f"examples   a standard error of {spread:.2g} nats because they are so few")
        concern = self.weights.concern()
        return "\n".join([*lines, f"warning    {concern}"] if concern else lines)


def estimate_evidence(
    log_weights: Callable[..., Float[Array, "chunk *batch"]],
    key: Key,
    *args: Any,
    samples: int = 5000,
    chunk: int = 100,
    warn: bool = True,
) -> EvidenceEstimate:
    """log p(x) by importance sampling with `samples` draws, `chunk` of them in memory at a time.

    `log_weights(key, n, *args)` returns the log-weights of n draws for each example; it is compiled once for arguments
    of the same shapes.

    >>> from chainrule.probability import Normal
    >>> def log_weights(key, n, x):  # z ~ N(0, 1), x | z ~ N(z, 1), and q = N(x/2, 1/2) is the posterior
    ...     q = Normal(x / 2, 0.5**0.5)
    ...     z = q.sample(key, n)
    ...     return Normal().log_prob(z) + Normal(z, 1.0).log_prob(x) - q.log_prob(z)
    >>> found = estimate_evidence(log_weights, jax.random.key(0), jnp.array(2.0), samples=200)
    >>> round(float(found.log_prob), 4), float(found.standard_error) < 1e-5
    (-2.2655, True)
    """
    found = _compiled(log_weights, key, args, samples, chunk)
    return EvidenceEstimate(weight_report(found, warn=warn))


def annealed_evidence(
    log_joint: LogJoint,
    start: Distribution,
    key: Key,
    *,
    steps: int = 200,
    chains: int = 100,
    step_size: float = 0.2,
    leapfrogs: int = 5,
    warn: bool = True,
) -> EvidenceEstimate:
    """log p(x) of one example by annealed importance sampling, to check `estimate_evidence` by other means.

    `log_joint(z)` is log p(x, z) for one z. Chains go from draws of `start`, the prior or a guide, to the posterior by
    Hamiltonian moves, so z has to be continuous. It costs about `steps * leapfrogs` gradients for each chain.
    """
    chains = whole("annealed_evidence", "chains", chains, least=2)
    if start.support.is_discrete or start.batch_shape:
        raise ArgumentError(
            f"annealed_evidence: start is {type(start).__name__} with batch shape {start.batch_shape}; one continuous "
            "distribution is needed"
        )
    move = hamiltonian_move(step_size, leapfrogs)

    @eqx.filter_jit
    def weights(start: Distribution, key: Key) -> Array:
        for_start, for_moves = jax.random.split(key)
        drawn = start.sample(for_start, chains)
        return annealed_importance_sampling(
            drawn, start.log_prob, log_joint, move, for_moves, steps=steps
        ).log_weights

    return EvidenceEstimate(weight_report(weights(start, key), warn=warn))


@eqx.filter_jit
def _compiled(
    log_weights: Callable[..., Array], key: Key, args: tuple[Any, ...], samples: int, chunk: int
) -> Array:
    return chunked_log_weights(lambda one, n: log_weights(one, n, *args), key, samples, chunk)


__all__ = [
    "EvidenceEstimate",
    "annealed_evidence",
    "chunked_log_weights",
    "doubly_reparametrized_bound",
    "estimate_evidence",
    "importance_bound",
]
