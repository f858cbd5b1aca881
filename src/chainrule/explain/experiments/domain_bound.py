"""What a source error promises on a target: the bound of adaptation, exact on small problems, estimated on data.

On four points a bound with the divergence of single hypotheses is wrong, and the one with pairs of them is tight. On
random small problems both are compared. On data every term is estimated for one class of hypotheses, linear classifiers
on random features, and put beside the measured error.
"""

from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule import data as sources
from chainrule.core import random
from chainrule.core.errors import DataError
from chainrule.core.pictures import Scatter, Table
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.kernels.functions import RBF
from chainrule.kernels.linear_models import logistic
from chainrule.kernels.mean_embedding import median_kernel
from chainrule.kernels.random_features import RandomFourierFeatures
from chainrule.transfer.bounds import AdaptationBound, finite_bound, h_divergence, sampling_slack
from chainrule.transfer.distances import pair_divergence, proxy_distance
from chainrule.transfer.domains import DomainPair

_P, _Q = [0.0, 0.5, 0.0, 0.5], [0.5, 0.0, 0.5, 0.0]
_AB, _BC = [1, 1, 0, 0], [0, 1, 1, 0]
_PENALTY = 1e-2


@final
class DomainBoundSettings(Settings):
    """The random problems, and the two domains."""

    data: str = Field("moons", description="name or path of the source, with two classes")
    against: str = Field("rotated-moons", description="name or path of the target")
    load: dict[str, Any] = Field(
        default_factory=dict, description="options of the source, e.g. load.noise=0.1"
    )
    load_target: dict[str, Any] = Field(
        default_factory=dict, description="options of the target, e.g. load_target.angle=50"
    )
    frequencies: int = Field(32, ge=1, le=1000, description="of the random features")
    problems: int = Field(500, ge=1, le=20_000, description="random problems on a few points")
    steps: int = Field(400, ge=1, le=100_000, description="of training the pair of hypotheses")
    seed: int = Field(0, ge=0, description="problems, features and halves")


class _Finite(NamedTuple):
    bound: Float[np.ndarray, " problems"]
    short: Float[np.ndarray, " problems"]
    error: Float[np.ndarray, " problems"]


def run(settings: DomainBoundSettings, listener: Listener) -> Outcome:
    """The counter-example, the random problems, the data."""
    small = finite_bound(_P, _Q, [_AB, _BC], 1, _AB)
    single = h_divergence(_P, _Q, [_AB, _BC]).value
    listener(f"{settings.problems} random problems")
    finite = _random(settings)
    broken = int((finite.error > finite.short + 1e-9).sum())
    listener(f"{settings.data} and {settings.against}")
    bound, proxy, names = _estimated(settings)
    rows = [
        ["four points", "0", f"{small.divergence:g}", "0", f"{small.value:g}", f"{small.target_error:g}"],
        [
            f"{names[0]} to {names[1]}",
            *(f"{v:.3f}" for v in (bound.source_error, bound.divergence)),
            "not known" if bound.joint_error is None else f"{bound.joint_error:.3f}",
            f"{bound.value:.3f}",
            "not known" if bound.target_error is None else f"{bound.target_error:.3f}",
        ],
    ]
    return Outcome(
        [
            f"On four points a hypothesis has no error on the source and errs on all of the target. d_H is {single:g}, "
            f"so that a bound with it is wrong; d_HΔH is {small.divergence:g}, and the bound with its half is tight.",
            f"Of {settings.problems:,} random problems the bound with d_HΔH holds in all "
            f"{int((finite.error <= finite.bound + 1e-9).sum()):,}; with d_H it is wrong in {broken:,}.",
            f"{names[0]} to {names[1]}: " + "; ".join(bound.lines()) + ".",
            f"A classifier of the two domains gives a proxy distance of {proxy:.2f} of 2, an estimate of d_H only.",
        ],
        [bound.picture("domain-bound-terms"), _scatter(finite)],
        Table(
            "domain-bound-table",
            "The terms of the bound",
            ["problem", "source error", "d_HΔH", "joint error", "bound", "target error"],
            rows,
        ),
        {
            "four_points": {"d_h": single, "d_hdh": small.divergence, "target_error": small.target_error},
            "random": {"problems": settings.problems, "broken_with_d_h": broken},
            "data": {
                "source_error": bound.source_error,
                "divergence": bound.divergence,
                "joint_error": bound.joint_error,
                "target_error": bound.target_error,
                "bound": bound.value,
                "proxy_distance": proxy,
            },
        },
    )


def _random(settings: DomainBoundSettings) -> _Finite:
    rng = np.random.default_rng(settings.seed)
    found = []
    for _ in range(settings.problems):
        points, count = rng.integers(2, 7), rng.integers(2, 6)
        p, q = rng.dirichlet(np.full(points, 0.3), size=2)
        table, truth = rng.integers(0, 2, (count, points)), rng.integers(0, 2, points)
        bound = finite_bound(p, q, table, int(rng.integers(count)), truth)
        assert bound.joint_error is not None, "labels of both domains are known"
        short = bound.value - bound.divergence / 2 + h_divergence(p, q, table).value / 2
        found.append((bound.value, short, bound.target_error))
    return _Finite(*np.array(found, np.float64).T)


def _estimated(settings: DomainBoundSettings) -> tuple[AdaptationBound, float, tuple[str, str]]:
    """The terms on data, for linear classifiers on random features; labels of the target only judge."""
    source, target = (
        sources.load(name, **options)
        for name, options in ((settings.data, settings.load), (settings.against, settings.load_target))
    )
    _check(source)
    known = targets.of(target.schema).given
    pair = DomainPair(source, target, target_labels="eval" if known else "none")
    x, x_test, t, t_test = (
        np.asarray(one.x, np.float32).reshape(len(one), -1)
        for one in (source.train, source.test, pair.target.train, pair.target.test)
    )
    y, y_test = np.asarray(source.train.y), np.asarray(source.test.y)
    scale = median_kernel(x, t).scale
    features = RandomFourierFeatures(
        RBF(scale), x.shape[1], frequencies=settings.frequencies, key=random.key(settings.seed, "features")
    )
    psi, psi_test, chi, chi_test = (
        jnp.concatenate([features(jnp.asarray(one)), jnp.ones((len(one), 1))], axis=1)
        for one in (x, x_test, t, t_test)
    )
    own = _classifier(psi, y)
    source_error = float((_answers(psi_test, own) != y_test).mean())
    joint = error = None
    if known:
        judged = pair.evaluate(_answers(chi_test, own))
        error = 1 - judged.value
        best = _classifier(jnp.concatenate([psi, chi]), np.concatenate([y, np.asarray(target.train.y)]))
        joint = (
            float((_answers(psi_test, best) != y_test).mean())
            + 1
            - pair.evaluate(_answers(chi_test, best)).value
        )
    divergence, _ = pair_divergence(psi, chi, width=0, steps=settings.steps, seed=settings.seed)
    bound = AdaptationBound(source_error, divergence, joint, sampling_slack(len(y_test)), error)
    return bound, proxy_distance(x, t, seed=settings.seed).value, (source.name, target.name)


def _classifier(psi: jax.Array, y: np.ndarray) -> jax.Array:
    return logistic(psi, jnp.asarray(y), 2, _PENALTY)


def _answers(psi: jax.Array, weights: jax.Array) -> np.ndarray:
    return np.asarray((psi @ weights).argmax(axis=1))


def _check(source: Data) -> None:
    if not kinds.of(source.schema).comparable or len(source.schema.classes) != 2:
        raise DataError(
            f"{source.name}: the bound is about two classes of images, points or rows",
            remedy="choose data with two classes, such as data=moons",
        )


def _scatter(finite: _Finite) -> Scatter:
    wrong = finite.error > finite.short + 1e-9
    return Scatter(
        "domain-bound-problems",
        "Random problems on a few points",
        "bound",
        "target error",
        {
            "with d_HΔH": np.stack([finite.bound, finite.error], axis=1),
            "with d_H, and wrong": np.stack([finite.short, finite.error], axis=1)[wrong],
        },
        diagonal=True,
        caption="Below the line a bound is right. A bound above one says nothing.",
    )


experiment = Experiment(
    "The bound of domain adaptation: where its short form is wrong, and its terms on two data sets.",
    DomainBoundSettings,
    run,
    toy={"problems": 20, "steps": 5, "load": {"n": 60}, "load_target": {"n": 60}, "frequencies": 8},
    reference="Ben-David et al., A theory of learning from different domains, Machine Learning 79, 2010",
)

__all__ = ["DomainBoundSettings", "experiment", "run"]
