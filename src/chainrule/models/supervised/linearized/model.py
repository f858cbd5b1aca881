"""A supervised network as its Taylor expansion in the parameters it began with.

What learns is the change of the parameters. To first order the model is linear in it: its loss is convex, and gradient
descent on squared errors does exactly what the tangent kernel at the start says. Higher orders add what it leaves out.
"""

from collections.abc import Sequence
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import pydantic
from pydantic import Field

from chainrule.core import tree
from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.kernels.empirical import expansion
from chainrule.models.protocol import Config, Criterion, HasOutputs, Metrics, Model, as_prediction
from chainrule.models.supervised.linearized.bodies import KINDS, built, configured, name_of
from chainrule.models.supervised.supervised_model import Supervised
from chainrule.nn.sequential import running_statistics


@final
class LinearizedConfig(Config):
    """Settings of the expansion, and of the network that is expanded."""

    order: int = Field(
        1, ge=1, le=4, description="order of the Taylor expansion; 1 is linear in the parameters"
    )
    body: dict[str, Any] = Field(
        default_factory=lambda: {"name": "mlp"},
        description="the network that is expanded: body.name=mlp, cnn, resnet, ... and its settings, e.g. "
        "body.width=64; from=RUN takes that of the run",
    )

    @pydantic.field_validator("body")
    @classmethod
    def _whole(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Every setting of the body, checked by the model it is."""
        settings = dict(body)
        name = settings.pop("name", "mlp")
        if name not in KINDS:
            raise ValueError(f"body.name must be one of {', '.join(KINDS)}")
        try:
            return {"name": name, **configured(name, settings).model_dump()}
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"body.{first['loc'][0]}: {first['msg']}") from None


@final
class Linearized(HasOutputs):
    """A network that stays as it began, and a change of its parameters that learns."""

    body: Supervised
    """The network it is expanded around, which nothing moves; it predicts as in inference mode."""
    change: dict[str, Array]
    """Of every parameter by its name, zero at first."""
    order: tuple[str, ...] = eqx.field(static=True)
    """The names as the network lists its parameters; where its layers are watched, it lists them under others."""
    config: LinearizedConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: LinearizedConfig, schema: Schema, key: Key) -> None:
        self.config, self.schema = config, schema
        settings = dict(config.body)
        self.body = built(settings.pop("name"), settings, schema, key)
        named = tree.named_leaves(self._apart()[0])
        self.order = tuple(name for name, _ in named)
        self.change = {name: jnp.zeros_like(leaf) for name, leaf in named}

    def outputs(self, x: Array, key: Key) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values of the expansion, and the model as it is."""
        learnt, rest = self._apart()

        def network(parameters: Tree) -> Array:
            still = eqx.nn.inference_mode(eqx.combine(parameters, rest))
            out, _ = still.outputs(x, key)
            return out

        leaves, structure = jax.tree.flatten(learnt)
        # Where training computes in half precision, the change meets a network in full precision.
        steps = [self.change[name].astype(leaf.dtype) for name, leaf in zip(self.order, leaves, strict=True)]
        change = jax.tree.unflatten(structure, steps)
        return expansion(network, jax.lax.stop_gradient(learnt), change, self.config.order), self

    def judge(
        self, out: Float[Array, "batch outputs"], batch: Batch, criterion: Criterion | None = None
    ) -> tuple[Scalar, Metrics]:
        """As the network is judged: mean cross-entropy with accuracy, or mean squared error."""
        return self.body.judge(out, batch, criterion)

    def loss_unit(self) -> str:
        """That of the network."""
        return self.body.loss_unit()

    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """The outputs of the expansion before any softmax."""
        out, _ = self.outputs(
            x, jax.random.key(0)
        )  # the network is always in inference mode: the key is not used
        return out

    def predict(self, x: Array) -> Array:
        """Class probabilities, the probability of each label, or values in model units."""
        return as_prediction(self.schema, self.logits(x))

    def state(self) -> Sequence[Tree]:
        """The network it is expanded around: nothing moves it."""
        return [self.body]

    def _apart(self) -> tuple[Tree, Tree]:
        """What the network learns, and everything else of it."""
        leaves, structure = jax.tree.flatten(self.body)
        numbered = jax.tree.unflatten(structure, range(len(leaves)))
        moved = set(jax.tree.leaves(running_statistics(numbered)))
        learnt = [eqx.is_inexact_array(leaf) and n not in moved for n, leaf in enumerate(leaves)]
        return eqx.partition(self.body, jax.tree.unflatten(structure, learnt))


def adopts(source: Model, known_as: str) -> dict[str, Any]:
    """The settings of an expansion around a trained network."""
    if name_of(source) is None:
        raise CapabilityError(
            f"linearized expands {', '.join(KINDS)}, not a {known_as}",
            remedy="begin with a run of one of these: chainrule train mlp",
        )
    settings = source.config.model_dump()  # type: ignore[attr-defined]  # every registered model has them
    return {"body": {**settings, "name": known_as}}


__all__ = ["Linearized", "LinearizedConfig", "adopts"]
