"""First stages of diffusion in a space of codes, whichever codes these are: held still, or learning beside."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Images, Picture, Scatter
from chainrule.core.quoting import shell_word
from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    CanSample,
    HasOwnTraining,
    HasParts,
    HasPictures,
    HasScores,
    HasState,
    Model,
    Scored,
)
from chainrule.networks import units

_SHOWN = 10


class TwoStages(HasState, CanEncode, CanDecode, HasScores, HasPictures):
    """A first stage with codes, and a model of these codes."""

    body: eqx.AbstractVar[Model]
    """The first stage."""
    config: eqx.AbstractVar[Any]
    schema: eqx.AbstractVar[Schema]

    @abc.abstractmethod
    def code_scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """What is known of the codes of each example alone, apart from what the first stage makes of them."""

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """What the first stage loses before anything is drawn, and the scores of codes alone."""
        rebuilt = self.decode(self.encode(floating(batch.x)))
        return {
            "reconstruction_ceiling": ceiling(batch.x, rebuilt, self.schema),
            **self.code_scores(batch, key),
        }


def first_stage_of(source: Model) -> Model:
    """The model whose codes are learned: that of another model in two stages, or the model itself."""
    return source.body if isinstance(source, TwoStages) else source


def settings_of(source: Model, known_as: str) -> dict[str, Any]:
    """Name and settings of the first stage that a trained model is, or holds."""
    if isinstance(source, TwoStages):
        return dict(source.config.body)
    return {"name": known_as, **source.config.model_dump()}  # type: ignore[attr-defined]  # all have them


def floating(x: Array) -> Array:
    """Examples in single precision at least."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def named(body: Any, usual: str) -> Any:
    """Settings of a first stage with its name; without one they are those of the usual one.

    >>> named({"latent": 8}, "vae")
    {'name': 'vae', 'latent': 8}
    """
    return {"name": usual, **body} if isinstance(body, Mapping) else body


def check_unconditional(body: Model, known_as: str, usual: str) -> None:
    """Raise where the codes of a model mean something only beside a condition."""
    if isinstance(body, CanSample) and body.conditional:
        raise CapabilityError(
            f"the codes of {known_as} mean something only beside a condition",
            remedy=f"use a first stage without conditions: chainrule train {shell_word(usual)}",
        )


def check_examples(wanted: Sequence[int] | None, schema: Schema) -> None:
    """Raise where data have another shape than those a trained first stage knows.

    >>> check_examples((8, 8, 1), Schema("image", (28, 28, 1)))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: the first stage knows examples of shape (8, 8, 1); these have (28, 28, 1)
           leave data= out for those of the first stage, or train one on these data for from=RUN
    """
    if wanted is not None and tuple(wanted) != schema.shape:
        raise ArgumentError(
            f"the first stage knows examples of shape {tuple(wanted)}; these have {schema.shape}",
            remedy="leave data= out for those of the first stage, or train one on these data for from=RUN",
        )


def check_learning(body: Model, known_as: str, model: str) -> None:
    """Raise unless a first stage can learn together with what draws its codes."""
    if isinstance(body, HasOwnTraining | HasParts):
        raise CapabilityError(
            f"{known_as} is trained in a way of its own, not together with the diffusion of its codes",
            remedy=f"train it first: chainrule train {shell_word(known_as)}, then "
            f"chainrule train {shell_word(model)} from=RUN",
        )


def stage_state(body: Model, *, frozen: bool) -> Sequence[Tree]:
    """What gradients do not move of a first stage: everything, or its own state."""
    if frozen:
        return [body]
    return list(body.state()) if isinstance(body, HasState) else []


def stage_loss(body: Model, batch: Batch, key: Key) -> tuple[Scalar, Model]:
    """The loss of a first stage that learns beside, over the entries of an example, and the stage moved on."""
    entries = batch.x[0].size
    if isinstance(body, HasState):
        loss, _, moved = body.loss_and_state(batch, key)
        return loss / entries, moved
    return body.loss(batch, key)[0] / entries, body


def ceiling(x: Array, rebuilt: Array, schema: Schema) -> Scored:
    """What a first stage loses of each example before anything is drawn."""
    left = jnp.square(rebuilt - x).reshape(len(x), -1).mean(axis=1)
    return Scored(left, f"squared error of the first stage, {units.described(schema)}")


def beside(rows: Mapping[str, np.ndarray], schema: Schema) -> Sequence[Picture]:
    """Held-out examples, the same through the first stage alone, and new ones; nothing for what cannot be drawn."""
    kind, title = kinds.of(schema), "Held out, rebuilt by the first stage, and new"
    caption = "What is lost between the first two, no diffusion of codes brings back."
    if kind.shows_pixels(schema):
        shown = [row[:_SHOWN] for row in rows.values()]
        labels = [name for name, row in zip(rows, shown, strict=True) for _ in row]
        images = np.clip(np.concatenate(shown), 0, 1)
        return [Images("ceiling", title, images, labels, len(shown[0]), caption=caption)]
    if kind.is_plane(schema):
        axes = ("first coordinate", "second coordinate")
        return [Scatter("ceiling", title, *axes, rows, caption=caption)]
    return []


__all__ = [
    "TwoStages",
    "beside",
    "ceiling",
    "check_examples",
    "check_learning",
    "check_unconditional",
    "first_stage_of",
    "floating",
    "named",
    "settings_of",
    "stage_loss",
    "stage_state",
]
