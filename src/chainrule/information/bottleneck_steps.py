"""The iteration of the information bottleneck, for many starts at once.

Three equations hold together at an optimum, and each is put right in turn until nothing changes:

    p(z)         = sum_x p(x) p(z given x)
    p(y given z) = sum_x p(x) p(z given x) p(y given x) / p(z)
    p(z given x) ~ p(z) exp(-beta KL(p(y given x), p(y given z)) - weight d(x, xhat(z)))

The exponent is the divergence at one x and one z; p(y given z) changes with every step. The last term, where a weight
is given, is the cost of telling for x what is best for all of its cluster.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from scipy.special import xlogy

_TINY = 1e-300
_LOOK = 10
"""Steps between two looks at the objective."""


class BottleneckState(NamedTuple):
    """Encoders after the same number of steps, and what they come to; all arrays begin with the axis of starts."""

    encoder: np.ndarray
    """p(z given x), (starts, x, z)."""
    rate: np.ndarray
    """I(X; Z) in nats."""
    relevance: np.ndarray
    """I(Z; Y) in nats."""
    cost: np.ndarray
    """E d(X, xhat(Z)); zero where there is none."""
    steps: int
    converged: np.ndarray


@final
@dataclass(frozen=True, eq=False)
class BottleneckProblem:
    """p(x), p(y given x) and, perhaps, what it costs to tell something else for x; every x has probability."""

    source: np.ndarray
    relevant: np.ndarray
    """p(y given x)."""
    distortion: np.ndarray | None = None

    def solve(
        self, encoder: np.ndarray, beta: float, weight: float = 0.0, tol: float = 1e-10, most: int = 5000
    ) -> BottleneckState:
        """Step until the objective I(X; Z) - beta I(Z; Y) + weight E d falls by less than `tol` a step."""
        negative_entropy = xlogy(self.relevant, self.relevant).sum(axis=1)[:, None]
        last = np.full(len(encoder), np.inf)
        done = np.zeros(len(encoder), bool)
        steps = 0
        while steps < most and not done.all():
            for _ in range(_LOOK):
                encoder = self._step(encoder, negative_entropy, beta, weight)
            steps += _LOOK
            now = self.objective(encoder, beta, weight)
            done = last - now <= tol * _LOOK
            last = now
        return BottleneckState(encoder, *self.measures(encoder), steps, done)

    def objective(self, encoder: np.ndarray, beta: float, weight: float = 0.0) -> np.ndarray:
        """I(X; Z) - beta I(Z; Y) + weight E d of every start, in nats."""
        rate, relevance, cost = self.measures(encoder)
        return np.asarray(rate - beta * relevance + weight * cost)

    def measures(self, encoder: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """I(X; Z) and I(Z; Y) in nats, and the mean distortion, of every start."""
        joint = self.source[:, None] * encoder
        mass = joint.sum(axis=1)
        with_y = self._with_y(joint)
        marginal = self.source @ self.relevant
        rate = xlogy(joint, encoder).sum(axis=(1, 2)) - xlogy(mass, mass).sum(axis=1)
        relevance = (
            xlogy(with_y, with_y).sum(axis=(1, 2))
            - xlogy(mass, mass).sum(axis=1)
            - xlogy(marginal, marginal).sum()
        )
        cost = np.zeros(len(encoder))
        if self.distortion is not None:
            cost = (joint * self._costs(joint)).sum(axis=(1, 2))
        return np.maximum(rate, 0.0), np.maximum(relevance, 0.0), cost

    def decoder(self, encoder: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """p(z) and p(y given z) of one encoder."""
        joint = (self.source[:, None] * encoder)[None]
        mass = joint.sum(axis=1)[0]
        return mass, self._with_y(joint)[0] / np.maximum(mass, _TINY)[:, None]

    def _step(
        self, encoder: np.ndarray, negative_entropy: np.ndarray, beta: float, weight: float
    ) -> np.ndarray:
        joint = self.source[:, None] * encoder
        mass = np.maximum(joint.sum(axis=1), _TINY)
        log_decoder = np.log(np.maximum(self._with_y(joint) / mass[..., None], _TINY))
        divergence = negative_entropy - self.relevant @ log_decoder.transpose(0, 2, 1)
        logits = np.log(mass)[:, None] - beta * divergence
        if weight:
            logits -= weight * self._costs(joint)
        logits -= logits.max(axis=2, keepdims=True)
        found = np.exp(logits)
        return np.asarray(found / found.sum(axis=2, keepdims=True))

    def _with_y(self, joint: np.ndarray) -> np.ndarray:
        """p(z, y)."""
        return np.asarray(joint.transpose(0, 2, 1) @ self.relevant)

    def _costs(self, joint: np.ndarray) -> np.ndarray:
        """d(x, xhat(z)), where xhat(z) is what is best to tell for the whole cluster: (starts, x, z)."""
        assert self.distortion is not None
        best = (joint.transpose(0, 2, 1) @ self.distortion).argmin(axis=2)
        return np.asarray(self.distortion[:, best].transpose(1, 0, 2))


def identity(inputs: int, clusters: int) -> np.ndarray:
    """Every x in a cluster of its own, as long as there are clusters; (1, x, z)."""
    return np.eye(clusters)[np.arange(inputs) % clusters][None]


def perturbed(encoder: np.ndarray, draws: np.random.Generator, amount: float = 0.02) -> np.ndarray:
    """A little of everything mixed in: an encoder that parts all x is a fixed point wherever supports differ."""
    noise = draws.dirichlet(np.ones(encoder.shape[2]), encoder.shape[:2])
    return np.asarray((1 - amount) * encoder + amount * (noise + 1 / encoder.shape[2]) / 2)


def random_starts(count: int, inputs: int, clusters: int, draws: np.random.Generator) -> np.ndarray:
    """Encoders drawn at random, (count, x, z)."""
    return draws.dirichlet(np.ones(clusters), (count, inputs))


__all__ = ["BottleneckProblem", "BottleneckState", "identity", "perturbed", "random_starts"]
