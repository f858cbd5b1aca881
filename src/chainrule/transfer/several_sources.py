"""Weights of several sources: for a target of which examples are there, and for one that is any of them or a mixture.

The mixture of sources whose mean feature is closest to that of a target is a small quadratic program on the simplex,
for the squared distance is a quadratic form of the shares. Where nothing of the target was seen, the worst source is
made as good as can be: its weight grows while its loss is larger than those of others.

References: Mansour, Mohri and Rostamizadeh, Domain adaptation with multiple sources, 2009 (target as a mixture of
sources); Zhang, Gong and Schölkopf, Multi-source domain adaptation, 2015 (mean embeddings); Sagawa, Koh, Hashimoto and
Liang, Distributionally robust neural networks for group shifts, 2020, arXiv:1911.08731.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import check_class_numbers, whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Scalar
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.mean_embedding import median_kernel, row_means
from chainrule.kernels.precision import in_double
from chainrule.transfer.importance import domain_rows
from chainrule.transfer.mean_matching import minimised


@final
@dataclass(frozen=True)
class SourceMixture:
    """How much each source is like the target, as shares of a mixture."""

    shares: Float[np.ndarray, " sources"]
    distance: float
    """The maximum mean discrepancy of the mixture from the target, biased."""
    distances: Float[np.ndarray, " sources"]
    """That of each source alone."""
    uniform: float
    """That of all sources in equal shares."""

    def weights(self, sizes: Sequence[int]) -> list[Float[np.ndarray, " rows"]]:
        """What examples of each source count for, one on average over all of them."""
        if len(sizes) != len(self.shares) or min(sizes) < 1:
            raise ArgumentError(
                f"weights(sizes={list(sizes)}): an example or more of {len(self.shares)} sources"
            )
        total = sum(sizes)
        return [np.full(size, share * total / size) for size, share in zip(sizes, self.shares, strict=True)]


def mix_sources(sources: Sequence[Any], target: Any, kernel: Kernel | None = None) -> SourceMixture:
    """The mixture of sources that is closest to the target in maximum mean discrepancy.

    >>> rng = np.random.default_rng(0)
    >>> left, right = rng.normal(-3, size=(100, 1)), rng.normal(3, size=(100, 1))
    >>> found = mix_sources([left, right], np.concatenate([left[:20], right[:80]]))
    >>> found.shares.round(1).tolist()
    [0.2, 0.8]
    """
    if not len(sources):
        raise ArgumentError("mix_sources(sources): give one or more")
    rows = [domain_rows("mix_sources", one, target)[0] for one in sources]
    wanted = domain_rows("mix_sources", rows[0], target)[1]
    between, pull, own = _means(rows, wanted, kernel)
    found, *_ = in_double(minimised)(between, pull, 1.0, 1.0, 1.0, 1e-10, 200)
    shares = np.clip(np.asarray(found), 0, 1)
    shares /= shares.sum()
    equal = np.full(len(rows), 1 / len(rows))

    def distance(one: np.ndarray) -> float:
        return float(np.sqrt(max(0.0, one @ between @ one - 2 * pull @ one + own)))

    return SourceMixture(
        shares, distance(shares), np.array([distance(one) for one in np.eye(len(rows))]), distance(equal)
    )


@final
class GroupRobustLoss(eqx.Module):
    """The loss of the worst of several groups, by weights that follow their losses: `w_g` times `exp(rate loss_g)`.

    Every call gives the weighted loss and the weights for the next one.

    >>> loss, after = GroupRobustLoss(2, rate=1.0)(jnp.array([0.0, 2.0, 2.0]), jnp.array([0, 1, 1]))
    >>> [round(float(weight), 2) for weight in after.weights]
    [0.12, 0.88]
    """

    weights: Float[Array, " groups"]
    rate: float = eqx.field(static=True)

    def __init__(self, groups: int, rate: float = 0.01) -> None:
        if not rate > 0:
            raise ArgumentError(f"GroupRobustLoss(rate={rate}): a rate is positive")
        self.weights = jnp.full(whole("GroupRobustLoss", "groups", groups), 1 / groups)
        self.rate = rate

    def __call__(
        self, losses: Float[Array, " batch"], groups: Int[Array, " batch"]
    ) -> tuple[Scalar, "GroupRobustLoss"]:
        """Losses of a batch and the group of each example; a group that is not in the batch keeps its weight."""
        check_class_numbers("GroupRobustLoss", "groups", groups, len(self.weights))
        member = jax.nn.one_hot(groups, len(self.weights), dtype=losses.dtype)
        means = (losses @ member) / jnp.maximum(member.sum(axis=0), 1)
        grown = jax.lax.stop_gradient(jnp.log(self.weights) + self.rate * means)
        weights = jax.nn.softmax(grown)
        return weights @ means, eqx.tree_at(lambda loss: loss.weights, self, weights)


@in_double
def _means(sources: Any, target: Any, kernel: Kernel | None) -> tuple[Any, Any, Any]:
    """Mean kernels between sources, of each with the target, and of the target with itself."""
    kernel = kernel or median_kernel(jnp.concatenate(sources), target)
    between = jnp.stack([jnp.stack([row_means(kernel, a, b).mean() for b in sources]) for a in sources])
    pull = jnp.stack([row_means(kernel, one, target).mean() for one in sources])
    return between, pull, row_means(kernel, target, target).mean()


__all__ = ["GroupRobustLoss", "SourceMixture", "mix_sources"]
