"""Data and models whose training can be followed with pencil and paper."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.data import Batch, Data, Rows, Scaling, Schema
from chainrule.models.protocol import CanPredict, HasParts, HasState, Metrics, Model, Part
from chainrule.train.adapters import attached
from chainrule.train.config import TrainConfig
from chainrule.train.state import State, initial_state
from chainrule.train.step import Stepper


def rows(
    x: np.ndarray,
    y: np.ndarray | None = None,
    *,
    sizes: tuple[int, int] = (0, 0),
    scaling: Scaling | None = None,
    target_scaling: Scaling | None = None,
    target_shape: tuple[int, ...] = (),
    **schema: Any,
) -> Data:
    """Data made of rows: the last ones become the validation and test splits of the given sizes."""
    scaling = scaling or Scaling()
    arrays = {"x": x} if y is None else {"x": x, "y": y}
    ends = (len(x) - sum(sizes), len(x) - sizes[1], len(x))
    splits = [
        Rows({name: a[first:last] for name, a in arrays.items()}, scaling, target_scaling)
        for first, last in zip((0, *ends[:2]), ends, strict=True)
    ]
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values())).hexdigest()
    known = {"kind": "points", "shape": x.shape[1:], "target_shape": target_shape} | schema
    return Data("toy", Schema(**known), *splits, scaling, target_scaling, digest, {})


def numbers(n: int = 64, d: int = 3, seed: int = 0, **options: Any) -> Data:
    """Rows of normal numbers without targets."""
    return rows(np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32), **options)


def blobs(n: int = 128, seed: int = 0, **options: Any) -> Data:
    """Two classes of points in the plane, well apart."""
    noise = np.random.default_rng(seed)
    y = np.arange(n, dtype=np.int32) % 2
    x = noise.normal(size=(n, 2)) + 3 * y[:, None]
    return rows(x.astype(np.float32), y, target="class", classes=("left", "right"), **options)


def line(n: int = 128, seed: int = 0, **options: Any) -> Data:
    """A noisy linear function of three variables."""
    noise = np.random.default_rng(seed)
    x = noise.normal(size=(n, 3))
    y = x @ np.array([1.0, -2.0, 0.5]) + 0.3 + 0.1 * noise.normal(size=n)
    return rows(x.astype(np.float32), y.astype(np.float32), target="value", **options)


@final
class Mean(Model):
    """Minimises half the mean squared distance between `w` and the examples."""

    w: Array

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        distance = jnp.square(batch.x - self.w[None, :]).sum(axis=1)
        return distance.mean() / 2, {"first": self.w[0]}


@final
class Picture(Model):
    """Minimises half the mean squared distance between an image and the examples."""

    w: Array

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return jnp.square(batch.x - self.w[None]).sum(axis=(1, 2, 3)).mean() / 2, {}


@final
class Affine(CanPredict):
    """Least squares."""

    w: Array
    b: Array

    def predict(self, x: Array) -> Array:
        return x @ self.w + self.b

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return jnp.square(self.predict(batch.x) - batch.y).mean(), {}


@final
class Averager(HasState):
    """A weight trained by gradient beside an average of the examples, vector or matrix, moved by rule."""

    w: Array
    average: Array

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, "Averager"]:
        center = jnp.broadcast_to(batch.x.mean(axis=0), self.average.shape)
        moved = eqx.tree_at(lambda model: model.average, self, 0.99 * self.average + 0.01 * center)
        return jnp.square(batch.x @ self.w - 1).mean(), {}, moved

    def state(self) -> Sequence[Tree]:
        return (self.average,)


@final
class Game(HasParts):
    """Two parts with quadratic losses: `x` follows the batch and `y`, `y` runs from `x`."""

    x: Array
    y: Array
    repeat: int = eqx.field(static=True, default=1)
    every: int = eqx.field(static=True, default=1)
    most: float = eqx.field(static=True, default=math.inf)

    def parts(self) -> Sequence[Part["Game"]]:
        def project(y: Array) -> Array:
            return jnp.clip(y, -self.most, self.most)

        return [
            Part("critic", lambda game: game.y, self._critic, repeat=self.repeat, project=project),
            Part("maker", lambda game: game.x, self._maker, every=self.every),
        ]

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return self._maker(self, batch, key)[0], {}

    @staticmethod
    def _critic(game: "Game", batch: Batch, key: Key) -> tuple[Scalar, Metrics, "Game"]:
        return jnp.square(game.y + game.x - batch.x.mean()) / 2, {}, game

    @staticmethod
    def _maker(game: "Game", batch: Batch, key: Key) -> tuple[Scalar, Metrics, "Game"]:
        return (game.x * game.y + jnp.square(game.x) / 2), {"position": game.x}, game


def train(
    model: Model,
    data: Data,
    steps: int,
    *,
    stretches: Sequence[int] | None = None,
    resident: bool = True,
    rate: Callable[[Any], Any] = lambda step: 1.0,
    **settings: Any,
) -> tuple[Model, dict[str, np.ndarray], State]:
    """The model after some steps, every metric of every step, and the whole state; no run folder involved."""
    config = TrainConfig.parse(**{"batch": 16, "optimizer": {"name": "sgd", "lr": 0.1}, **settings})
    stepper = Stepper(model, config, data.train, rate, resident=resident, most=steps)
    state = initial_state(model, config)
    stepper.compile(state)
    first, pieces = 0, []
    for count in stretches or (steps,):
        state, metrics, done = stepper.run(state, first, count)
        assert done == count
        pieces.append(metrics)
        first += done
    seen = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    rest = eqx.filter(attached(model, config), eqx.is_array, inverse=True)
    return eqx.combine(state.model, rest), seen, state


def leaves(tree: Any) -> Mapping[str, np.ndarray]:
    """Every array of a tree by its path."""
    found = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, eqx.is_array))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in found}
