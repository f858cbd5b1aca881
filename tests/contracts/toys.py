"""A small sound model that can do everything, and the same model with one flaw at a time."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.data import Batch, Data, Rows, Scaling, Schema
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    CanPredict,
    CanSample,
    Config,
    Entry,
    HasBound,
    HasLogProb,
    HasParts,
    HasState,
    Metrics,
    Model,
    Part,
)
from chainrule.nn import losses

_BUILT = itertools.count()


def points(n: int = 128) -> Data:
    """Two clouds in the plane."""
    noise = np.random.default_rng(0)
    y = np.arange(n, dtype=np.int32) % 2
    x = (noise.normal(size=(n, 2)) + 2 * y[:, None]).astype(np.float32)
    splits = [Rows({"x": x[part], "y": y[part]}) for part in (slice(0, 96), slice(96, 112), slice(112, n))]
    schema = Schema("points", (2,), target="class", classes=("left", "right"))
    return Data("clouds", schema, *splits, Scaling(), None, "clouds", {})


@final
class Toy(HasState, CanSample, HasLogProb, HasBound, CanEncode, CanDecode, CanPredict):
    """A Gaussian with a linear classifier beside it; `flaw` names what is wrong with it, if anything."""

    mean: Array
    log_scale: Array
    classifier: Array
    seen: Array
    flaw: str = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    """Something that is not in the arrays: the same in every copy of a sound toy."""

    def __init__(self, flaw: str = "") -> None:
        self.mean = jnp.array([0.3, -0.2])
        self.log_scale = jnp.array([0.1, 0.5])
        self.classifier = jnp.array([[0.2, -0.1], [0.4, 0.3]])
        self.seen = jnp.zeros(2)
        self.flaw = flaw
        self.hidden = next(_BUILT) if flaw == "forgets" else 0

    # ------------------------------------------------------------------ training

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, "Toy"]:
        each = losses.cross_entropy(batch.x @ self.classifier, batch.y) - self._density(batch.x) + self.hidden
        if self.flaw in ("noise", "order under noise"):
            each = each + jax.random.normal(key, each.shape)
        if self.flaw in ("order", "order under noise"):
            each = each * jnp.arange(each.shape[0])
        if self.flaw == "low precision" and self.classifier.dtype == jnp.bfloat16:
            each = each + 1
        loss = each.mean()
        if self.flaw == "jit" and isinstance(loss, jax.core.Tracer):
            loss = loss + 1
        if self.flaw == "gradient":
            loss = 1.1 * loss - jax.lax.stop_gradient(0.1 * loss)
        if self.flaw == "ascent":
            loss = jax.lax.stop_gradient(2 * loss) - loss
        if self.flaw == "no gradient":
            loss = jax.lax.stop_gradient(loss)
        if self.flaw == "nan gradient":
            loss = loss + jnp.sqrt(0 * self.mean[0])
        if self.flaw == "single precision":
            loss = loss.astype(jnp.float32)
        moved = 0.9 * self.seen + 0.1 * batch.x.mean(axis=0)
        if self.flaw == "type of state":
            moved = moved.astype(jnp.bfloat16)
        return loss, {"first": self.mean[0]}, eqx.tree_at(lambda toy: toy.seen, self, moved)

    def state(self) -> Sequence[Tree]:
        return () if self.flaw == "unnamed state" else (self.seen,)

    # ------------------------------------------------------------------ at work

    def _density(self, x: Array) -> Array:
        z = (x - self.mean[None, :]) * jnp.exp(-self.log_scale)[None, :]
        return -(jnp.square(z) / 2 + self.log_scale[None, :] + math.log(2 * math.pi) / 2).sum(axis=1)

    def log_prob(self, x: Array) -> Array:
        density = self._density(x)
        return {
            "shape of density": density[:, None],
            "nan density": jnp.sqrt(density),
            "neighbours in density": density - density.mean(),
        }.get(self.flaw, density)

    def elbo(self, x: Array, key: Key) -> Array:
        below = self._density(x) - jnp.abs(jax.random.normal(key, x.shape[:1]))
        return {"shape of bound": below[:, None], "bound above": below + 2}.get(self.flaw, below)

    def sample(self, key: Key, n: int, **options: Any) -> Array:
        if self.flaw == "one sample":
            key = jax.random.key(0)
        if self.flaw == "random sample":
            return jnp.asarray(np.random.default_rng().normal(size=(n, 2)))
        z = jax.random.normal(key, (n, 3 if self.flaw == "shape of sample" else 2))
        return jnp.log(z) if self.flaw == "nan sample" else self.decode(z)

    def encode(self, x: Array) -> Array:
        z = (x - self.mean[None, :]) * jnp.exp(-self.log_scale)[None, :]
        return {"shape of code": z.T, "neighbours in code": z - z.mean(axis=0, keepdims=True)}.get(
            self.flaw, z
        )

    def decode(self, z: Array) -> Array:
        if self.flaw == "shape of decoded":
            return z[:, :1]
        return z if z.shape[1] != 2 else self.mean[None, :] + jnp.exp(self.log_scale)[None, :] * z

    def predict(self, x: Array) -> Array:
        logits = x @ self.classifier
        p = jax.nn.softmax(logits, axis=1)
        return {
            "logits": logits,
            "sum": jax.nn.sigmoid(logits),
            "shape of prediction": p[:, :1],
            "neighbours in prediction": jax.nn.softmax(logits - logits.mean(axis=0, keepdims=True), axis=1),
        }.get(self.flaw, p)


@final
class Vector(Model):
    """Returns one loss for each example."""

    w: Array

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return batch.x @ self.w, {}


@final
class TwoParts(HasParts):
    """Two parts; the second may be idle."""

    first: Array
    second: Array
    idle: bool = eqx.field(static=True)

    def parts(self) -> Sequence[Part]:
        def chase(model: "TwoParts", batch: Batch, key: Key) -> tuple[Scalar, Metrics, "TwoParts"]:
            return jnp.square(model.first - model.second - batch.x.mean()).sum(), {}, model

        def flee(model: "TwoParts", batch: Batch, key: Key) -> tuple[Scalar, Metrics, "TwoParts"]:
            own = jax.lax.stop_gradient(model.second) if self.idle else model.second
            return jnp.square(model.first + own).sum(), {}, model

        return [Part("chaser", lambda m: m.first, chase), Part("runner", lambda m: m.second, flee)]

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return jnp.square(self.first - batch.x.mean()).sum(), {}


def build(config: Any, schema: Schema, key: Key) -> Model:
    return Toy()


@final
class ToyConfig(Config):
    """Sound settings."""

    width: int = Field(3, description="units of the layer")


ENTRY = Entry(
    name="toy-model",
    summary="A model for tests.",
    config=ToyConfig,
    build=build,
    kinds=("points",),
    targets=("class",),
    data="moons",
    toy={"width": 2},
    toy_data="moons",
    citation="Nobody, 2020",
)

CARD = """# toy-model: a model for tests

## What it is
A toy.

## How it works
Hardly.

## Use it
```
chainrule train toy-model data=moons width=4 optimizer.lr=1e-2  # a comment
chainrule sample clouds-toy-001 n=4
```
```python
import chainrule as cr
```

## Settings that matter
`width=4` is wider than `width`.

## Results
None.

## Pictures
None.

## Limits
Many.

## References
None.
"""
