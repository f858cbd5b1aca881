"""Data and models small enough that a test can train them many times, each with one thing that can go wrong."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule import models
from chainrule.core.types import Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Rows
from chainrule.models.protocol import HasParts, HasState, Metrics, Model, Part
from chainrule.train import Run, checkpoints, fit, resume

SETTINGS: dict[str, Any] = {
    "steps": 12,
    "batch": 8,
    "eval_every": 4,
    "save_every": 4,
    "log_every": 5,
    "optimizer": {"lr": 0.05},
}
"""Boundaries that do not coincide: metrics are logged between checkpoints, so a kill leaves some to be cut off."""


def points(*, bad: int | None = None) -> Data:
    """48 + 8 + 8 points in the plane in two classes; `bad` makes one coordinate of that training point a NaN."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(64, 2)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)
    if bad is not None:
        x[bad, 1] = np.nan
    splits = [Rows({"x": x[a:b], "y": y[a:b]}) for a, b in ((0, 48), (48, 56), (56, 64))]
    schema = Schema("points", (2,), "class", classes=("odd", "even"))
    return Data("quadrants", schema, *splits, Scaling(), None, hash=f"quadrants-{bad}", source={})


def mlp(**settings: Any) -> Model:
    """The perceptron of the registry at toy size."""
    return models.build("mlp", points(), **{"width": 4, "depth": 2, **settings})


@final
class TwoParts(HasParts):
    """A generator that shifts noise and a critic that tells it from data, with unequal numbers of moves."""

    critic: eqx.nn.Linear
    generator: eqx.nn.Linear

    def __init__(self) -> None:
        keys = jax.random.split(jax.random.key(3))
        self.critic = eqx.nn.Linear(2, "scalar", key=keys[0])
        self.generator = eqx.nn.Linear(2, 2, key=keys[1])

    def _gap(self, batch: Batch, key: jax.Array) -> jax.Array:
        fake = jax.vmap(self.generator)(jax.random.normal(key, batch.x.shape))
        return jnp.tanh(jax.vmap(self.critic)(batch.x)).mean() - jnp.tanh(jax.vmap(self.critic)(fake)).mean()

    def loss(self, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        return self._gap(batch, key), {}

    def parts(self) -> Sequence[Part[Any]]:
        return [
            Part("critic", lambda m: m.critic, lambda m, b, k: (-m._gap(b, k), {}, m), repeat=2),
            Part("generator", lambda m: m.generator, lambda m, b, k: (m._gap(b, k), {}, m), every=2),
        ]


@final
class Spoilt(HasState):
    """A line fit that goes wrong: at one move in its loss, gradient, norm or state, or when it runs away."""

    weight: jax.Array
    moves: jax.Array
    at: int = eqx.field(static=True)
    how: str = eqx.field(static=True)

    def __init__(self, how: str, at: int = 6) -> None:
        self.weight = jnp.array([1.0, -1.0])
        self.moves = jnp.zeros(())
        self.at = at
        self.how = how

    def loss_and_state(self, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics, Self]:
        now = self.moves == self.at
        loss = jnp.square(batch.x @ self.weight - 1).mean()
        loss += {
            "loss": lambda: jnp.where(now, jnp.nan, 0.0),
            "gradient": lambda: jnp.sqrt(jnp.where(now, 0.0, 1.0) * jnp.square(self.weight).sum()),
            "norm": lambda: jnp.where(now, 1e25, 0.0) * self.weight.sum(),
            "state": lambda: jnp.zeros(()),
            "runaway": lambda: jnp.where(loss > 10, jnp.nan, 0.0),
        }[self.how]()
        after = jnp.where(now & (self.how == "state"), jnp.inf, self.moves + 1)
        return loss, {}, eqx.tree_at(lambda m: m.moves, self, after)

    def state(self) -> Sequence[Tree]:
        return (self.moves,)


def train(path: Path, model: Model | None = None, data: Data | None = None, **settings: Any) -> Run:
    """A toy run in that folder."""
    return fit(model or mlp(), data or points(), run=path, **{**SETTINGS, **settings})


def go_on(path: Path, model: Model | None = None, data: Data | None = None, **settings: Any) -> Run:
    """The same, resumed; data built in Python have to be given again."""
    return resume(Run.open(path, model=model, data=data or points()), **settings)


def newest(path: Path) -> Path:
    """The newest checkpoint of a run folder."""
    store = path / "checkpoints"
    return checkpoints.path(store, checkpoints.steps(store)[-1])


def fingerprint(run: Path) -> dict[str, str]:
    """SHA-256 of everything a run has computed."""
    files = [run / "metrics.jsonl", *sorted(run.glob("checkpoints/*/*"))]
    return {str(file.relative_to(run)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
