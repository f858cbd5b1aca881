"""Variational bounds of mutual information: a critic fitted on some pairs and scored on others it never saw.

On pairs it was fitted on, a critic can read any number by learning them by heart. Half of the pairs are therefore
kept for the value alone; a fifth of the other half says when to stop. Which bound is best depends on what is asked:
InfoNCE has little variance and never exceeds the logarithm of its batch; the bounds of Donsker and Varadhan (MINE)
and of Nguyen, Wainwright and Jordan have no ceiling, and a variance that grows exponentially with the information.

Reference: Poole, Ozair, van den Oord, Alemi and Tucker, On variational bounds of mutual information, 2019; Song and
Ermon, Understanding the limitations of variational mutual information estimators, 2020 (SMILE).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Key
from chainrule.information.estimates import pair_critics
from chainrule.information.estimates.pair_critics import CRITICS, LabelCritic, Objective, PairCritic
from chainrule.information.estimates.result import Meaning, MutualInformationEstimate, around
from chainrule.information.estimates.samples import NotSuited, Variable, sentences

_NEAR = 0.9
"""Share of the ceiling above which a value says more about the ceiling."""
_HIGH = 4.0
"""Nats above which the variance of bounds without a ceiling is large."""
_MOST = 4096
"""Pairs whose matrix of scores is looked at."""
_KEPT = 512
"""Pairs that training is stopped by, at most."""
_AT_ONCE = 2**18
"""Scores that are computed at once."""

Scorer = Callable[[Any, Any], Any]


class _Method(NamedTuple):
    """What is raised while training, how pairs that were never seen are judged, and what is to be said of it."""

    objective: Objective
    meaning: Meaning
    caveat: str


_METHODS = {
    "infonce": _Method(pair_critics.info_nce, "lower bound", "It never exceeds the logarithm of its batch."),
    "mine": _Method(
        pair_critics.donsker_varadhan,
        "lower bound",
        "Its variance grows exponentially with the information, and the logarithm of few draws is biased upwards.",
    ),
    "nwj": _Method(
        pair_critics.nguyen_wainwright_jordan,
        "lower bound",
        "Its variance grows exponentially with the information.",
    ),
    "smile": _Method(
        pair_critics.jensen_shannon, "estimate", "Scores are cut off, so that it is no bound on either side."
    ),
}


class ScoredPairs(NamedTuple):
    """Mean over pairs and its standard error, in nats."""

    value: float
    error: float
    ceiling: float = math.inf


def variational(
    where: str,
    x: Variable,
    y: Variable,
    rng: np.random.Generator,
    *,
    bound: str,
    critic: str | Scorer = "separable",
    batch: int = 128,
    steps: int = 2000,
    width: int = 64,
    depth: int = 2,
    lr: float = 2e-3,
    patience: int = 20,
    clip: float = 5.0,
) -> MutualInformationEstimate:
    """A bound by a critic: the name of a network, which is fitted, or a function, which is scored as it is."""
    method = _METHODS[bound]
    _check(where, batch=batch, steps=steps, width=width, depth=depth, patience=patience, lr=lr, clip=clip)
    details = {}
    if callable(critic):
        score, held, fitted = critic, (x.rows, y.rows), ""
    else:
        check_choice(where, "critic", critic, tuple(CRITICS))
        key = jax.random.key(int(rng.integers(2**31)))
        used, kept, other = _parts(len(x), rng)
        made, info = _fitted(
            CRITICS[critic],
            [(x.rows[part], y.rows[part]) for part in (used, kept)],
            key,
            method.objective,
            batch=batch,
            steps=steps,
            width=width,
            depth=depth,
            lr=lr,
            patience=patience,
        )
        score, held = made, (x.rows[other], y.rows[other])
        details = {"n_steps": float(info.steps), "n_best_step": float(info.best_step)}
        fitted = _ended(info)
    found = _scored(bound, score, *held, batch=batch, clip=clip)
    return _estimate(bound, method, found, len(held[0]), details, fitted)


def label_bound(
    where: str,
    x: Variable,
    y: Variable,
    rng: np.random.Generator,
    *,
    steps: int = 2000,
    width: int = 64,
    depth: int = 2,
    batch: int = 128,
    lr: float = 2e-3,
    patience: int = 20,
) -> MutualInformationEstimate:
    """H(Y) minus the cross-entropy with which a network predicts the labels y from x; x, where those are the labels."""
    _check(where, batch=batch, steps=steps, width=width, depth=depth, patience=patience, lr=lr, clip=1.0)
    if not (x.is_discrete or y.is_discrete):
        raise NotSuited(
            f'{where}(method="label"): neither x nor y are labels',
            remedy='discrete="y" takes the values of y for labels',
        )
    source, target = (x, y) if y.labels is not None else (y, x)
    assert target.labels is not None, "one of the two has labels"
    key = jax.random.key(int(rng.integers(2**31)))
    used, kept, other = _parts(len(x), rng)
    made, info = _fitted(
        LabelCritic,
        [(source.rows[part], target.rows[part]) for part in (used, kept)],
        key,
        pair_critics.likelihood,
        batch=batch,
        steps=steps,
        width=width,
        depth=depth,
        lr=lr,
        patience=patience,
    )
    log_q = np.asarray(_label_scores(made, source.rows[other]), np.float64)
    own = np.log(np.bincount(target.labels) / len(target))
    labels = target.labels[other]
    terms = log_q[np.arange(len(labels)), labels] - own[labels]
    found = ScoredPairs(float(terms.mean()), float(terms.std(ddof=1) / math.sqrt(len(terms))))
    method = _Method(
        pair_critics.likelihood, "lower bound", "It is as good as the network that predicts the labels."
    )
    details = {"n_steps": float(info.steps), "entropy": float(-own[target.labels].mean())}
    return _estimate("label", method, found, len(labels), details, _ended(info))


def _estimate(
    name: str, method: _Method, found: ScoredPairs, count: int, details: dict[str, float], ended: str
) -> MutualInformationEstimate:
    return MutualInformationEstimate(
        name,
        found.value,
        around(found.value, found.error),
        "nats",
        method.meaning,
        "95 % over draws of the pairs it was scored on; how far the critic is from the best is not in it",
        sentences(
            [
                method.caveat,
                f"It is near its ceiling of {found.ceiling:.3g} nats: a larger batch may read more."
                if found.value > _NEAR * found.ceiling
                else "",
                f"Above {_HIGH:g} nats the interval itself is uncertain."
                if math.isinf(found.ceiling) and name in ("mine", "nwj") and found.value > _HIGH
                else "",
                ended,
            ]
        ),
        count,
        None,
        {**details, **({"ceiling": found.ceiling} if math.isfinite(found.ceiling) else {})},
    )


def _ended(info: pair_critics.FittedCritic) -> str:
    steps, best = int(info.steps), int(info.best_step)
    return f"The best of {steps:,} steps was the last: more might read more." if steps == best else ""


def _check(where: str, *, lr: float, clip: float, **sizes: int) -> None:
    for name, size in sizes.items():
        whole(where, name, size, least=2 if name == "batch" else 1)
    for name, value in (("lr", lr), ("clip", clip)):
        if not 0 < value < math.inf:
            raise ArgumentError(f"{where}({name}={value}): {name} must be positive and finite")


def _parts(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs to fit on, to stop by, and to score on: two fifths, a tenth and a half of them."""
    order = rng.permutation(n)
    kept = max(2, n // 10)
    half = n // 2
    return order[kept:half], order[:kept], order[half:]


def _fitted(
    kind: Callable[..., PairCritic],
    pairs: list[tuple[np.ndarray, np.ndarray]],
    key: Key,
    objective: Objective,
    *,
    batch: int,
    steps: int,
    width: int,
    depth: int,
    lr: float,
    patience: int,
) -> tuple[PairCritic, pair_critics.FittedCritic]:
    drawn, batches = jax.random.split(key)
    (used_x, used_y), (kept_x, kept_y) = pairs
    start = kind(used_x, used_y, width=width, depth=depth, key=drawn)
    every = min(50, steps)
    found = pair_critics.fit_critic(
        start,
        (jnp.asarray(used_x, jnp.float32), jnp.asarray(used_y, jnp.float32)),
        (jnp.asarray(kept_x[:_KEPT], jnp.float32), jnp.asarray(kept_y[:_KEPT], jnp.float32)),
        batches,
        objective=objective,
        steps=steps,
        every=every,
        patience=patience,
        batch=batch,
        lr=lr,
    )
    return found.critic, found


# ---------------------------------------------------------------------- scoring


def _scored(
    bound: str, critic: Scorer, x: np.ndarray, y: np.ndarray, *, batch: int, clip: float
) -> ScoredPairs:
    if bound == "infonce":
        return info_nce_of(critic, x, y, batch)
    return _of_matrix(bound, _matrix(critic, x[:_MOST], y[:_MOST]), clip)


def info_nce_of(critic: Scorer, x: np.ndarray, y: np.ndarray, batch: int) -> ScoredPairs:
    """InfoNCE of a critic on pairs in batches; what is left of the last batch is not used."""
    size = min(batch, len(x))
    terms = []
    for first in range(0, len(x) - size + 1, size):
        scores = _matrix(critic, x[first : first + size], y[first : first + size])
        top = scores.max(axis=1, keepdims=True)
        sums = top[:, 0] + np.log(np.exp(scores - top).mean(axis=1))
        terms.append(np.diagonal(scores) - sums)
    every = np.concatenate(terms)
    return ScoredPairs(float(every.mean()), float(every.std(ddof=1) / math.sqrt(len(every))), math.log(size))


def _of_matrix(bound: str, scores: Float[np.ndarray, "n n"], clip: float) -> ScoredPairs:
    """A bound of the scores of all pairs; rows and columns of those that do not belong together vary on their own."""
    together = np.diagonal(scores).copy()
    apart = np.clip(scores, -clip, clip) if bound == "smile" else scores
    n = len(scores)
    top = float(apart.max())
    weights = np.exp(apart - top)
    np.fill_diagonal(weights, 0.0)
    means = [weights.sum(axis=axis) / (n - 1) for axis in (0, 1)]
    mean = max(float(means[0].mean()), 1e-150)
    log_mean = top + math.log(mean)
    # Relative variances of the mean of exp(f), by the two halves of its pairs.
    relative = sum(float(part.var(ddof=1)) for part in means) / (n * mean**2)
    spread = float(together.var(ddof=1)) / n
    if bound == "nwj":
        size = math.exp(min(log_mean, 700.0))
        return ScoredPairs(float(together.mean()) + 1 - size, math.sqrt(spread + size**2 * relative))
    return ScoredPairs(float(together.mean()) - log_mean, math.sqrt(spread + relative))


def _matrix(critic: Scorer, x: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "n m"]:
    if isinstance(critic, PairCritic):
        size = max(1, _AT_ONCE // len(y))
        second = y.astype(np.float32)
        parts = [_call(critic, x[i : i + size].astype(np.float32), second) for i in range(0, len(x), size)]
        return np.concatenate([np.asarray(part, np.float64) for part in parts])
    scores = np.asarray(critic(x, y), np.float64)
    if scores.shape != (len(x), len(y)):
        raise ArgumentError(
            f"critic: scores of {len(x)} by {len(y)} values have shape {scores.shape}",
            remedy="give a function critic(x, y) with an entry f(x_i, y_j) in row i and column j",
        )
    return scores


@jax.jit
def _call(critic: Any, x: Any, y: Any) -> Any:
    return critic(x, y)


def _label_scores(critic: PairCritic, x: np.ndarray) -> Any:
    assert isinstance(critic, LabelCritic), "it was fitted to labels"
    return _call(
        critic, x.astype(np.float32), np.eye(critic.network.layers[-1].weight.shape[1], dtype=np.float32)
    )


METHODS = tuple(_METHODS)

__all__ = ["METHODS", "ScoredPairs", "info_nce_of", "label_bound", "variational"]
