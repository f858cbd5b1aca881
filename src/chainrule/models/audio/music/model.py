"""Music event by event: recurrent layers or a transformer give the probability of what comes next."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.audio.music.network import (
    AttentiveReader,
    EventReader,
    MusicState,
    RecurrentReader,
    one_hot,
)
from chainrule.models.protocol import CanCompose, Config, HasPictures, HasScores, Metrics, Scored
from chainrule.models.protocol.decoding.beam import GumbelTopK, search
from chainrule.models.protocol.decoding.rules import rules
from chainrule.models.protocol.decoding.sampling import write
from chainrule.models.protocol.text import DecodingState
from chainrule.networks.pictures import music as music_pictures
from chainrule.nn import Linear, losses

_BLANK = -1
"""What is read before the first event."""
_NOBODY = -1
"""The class of music of which no class is said."""


@final
class MusicConfig(Config):
    """Settings of the model of music."""

    body: Literal["lstm", "transformer"] = Field(
        "transformer", description="attention that knows how far apart events are, or recurrent layers"
    )
    width: int = Field(128, ge=1, description="units of each layer")
    depth: int = Field(2, ge=1, le=100, description="layers on top of each other")
    heads: int = Field(4, ge=1, description="transformer: heads of attention; they must divide width")
    dropout: float = Field(0.0, ge=0, lt=1, description="share dropped between layers while training")
    condition_dropout: float = Field(
        0.2,
        ge=0,
        le=1,
        description="share of examples whose class is hidden in training, to draw without one",
    )


@final
class MusicModel(CanCompose, HasScores, HasPictures):
    """`p(x) = Π_t p(x_t | x_<t, class)`; the class, where there is one, goes with every event."""

    reader: EventReader
    head: Linear
    config: MusicConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    inference: bool

    def __init__(self, config: MusicConfig, schema: Schema, key: Key) -> None:
        events, classes = len(schema.tokens), len(schema.classes)
        for_reader, for_head = jax.random.split(key)
        if config.body == "lstm":
            self.reader = RecurrentReader(
                events + classes, config.width, config.depth, config.dropout, for_reader
            )
        else:
            if config.width % config.heads:
                raise ArgumentError(
                    f"heads={config.heads}: heads must divide width={config.width}",
                    remedy=f"use width={config.heads * max(1, config.width // config.heads)}",
                )
            sizes = config.width, config.depth, config.heads
            self.reader = AttentiveReader(events + classes, *sizes, config.dropout, for_reader)
        self.head = Linear(config.width, events, initializer="xavier", key=for_head)
        self.config = config
        self.schema = schema
        self.inference = False

    @property
    def conditional(self) -> bool:
        """Where the data have classes."""
        return bool(self.schema.classes)

    def loss_unit(self) -> str:
        """That of a log-probability."""
        return "nats per event"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean nats per event; in training some examples do not say what class they are of."""
        classes = batch.y
        for_classes, for_layers = jax.random.split(key)
        if classes is not None and not self.inference:
            hidden = jax.random.bernoulli(for_classes, self.config.condition_dropout, classes.shape)
            classes = jnp.where(hidden, _NOBODY, classes)
        return self._nats(batch.x, classes, None if self.inference else for_layers).mean(), {}

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """Nats of an event, with and without the class."""
        del key
        found = {"nats_per_event": Scored(self.event_nats(batch.x, batch.y).mean(axis=1), "nats/event")}
        if batch.y is not None:
            found["nats_per_event_unconditional"] = Scored(
                self.event_nats(batch.x).mean(axis=1), "nats/event"
            )
        return found

    def event_nats(
        self, x: Int[Array, "batch events"], condition: Int[Array, " batch"] | None = None
    ) -> Float[Array, "batch events"]:
        """All events at once; the first is read after nothing."""
        return self._nats(x, condition, None)

    def _nats(self, x: Array, classes: Array | None, key: Key | None) -> Float[Array, "batch events"]:
        before = jnp.concatenate([jnp.full_like(x[:, :1], _BLANK), x[:, :-1]], axis=1)
        features = self.reader(self._inputs(before, self._control(classes, len(x))), key)
        return losses.cross_entropy(self.head(features), x)

    def start(self, batch: int, room: int, condition: Array | None = None) -> MusicState:
        """Nothing read yet."""
        control = self._control(condition, batch)
        return MusicState(jnp.zeros((), jnp.int32), self.reader.start(batch, room), control)

    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], DecodingState]:
        """Read on from a state of `start`; -1 is nothing, with which all music begins."""
        assert isinstance(state, MusicState)
        features, memory = self.reader.advance(self._inputs(tokens, state.control), state.memory)
        moved = MusicState(state.position + tokens.shape[1], memory, state.control)
        return self.head(features), moved

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        condition: Annotated[Any, Field(description="the class that the music is to be of")] = None,
        length: Annotated[int | None, Field(ge=1, description="events; none: as an example has")] = None,
        temperature: Annotated[float, Field(ge=0, description="below 1 likelier, above 1 more varied")] = 1.0,
        top_p: Annotated[
            float | None, Field(gt=0, le=1, description="keep the likeliest events that reach this together")
        ] = None,
        beams: Annotated[
            int | None, Field(ge=1, description="stochastic beams: so many distinct pieces drawn at once")
        ] = None,
        branch: Annotated[
            int | None, Field(ge=1, description="beams: events that each is tried with")
        ] = None,
    ) -> Int[Array, "n events"]:
        """New music from its beginning; with beams, distinct pieces drawn without replacement."""
        steps = self.schema.shape[0] if length is None else length
        classes = self._classes(condition, n)
        allowed = rules(len(self.schema.tokens), temperature=temperature, top_p=top_p)
        if beams is None:
            if branch is not None:
                raise ArgumentError(f"branch={branch}: only beams branch", remedy="give beams=8 too")
            state, logits = _begun(self, jnp.full((n, 1), _BLANK), classes, steps + 1)
            return write(self.advance, state, logits, key, allowed, length=steps).tokens
        if n > beams or (classes is not None and len(np.unique(np.asarray(classes))) > 1):
            raise ArgumentError(
                f"beams={beams}: beams give at most so many pieces, all of one class",
                remedy=f"use beams={max(n, beams)} and a single class",
            )
        state, logits = _begun(
            self, jnp.full((1, 1), _BLANK), None if classes is None else classes[:1], steps + 1
        )
        found = search(
            self.advance, state, logits, key, allowed, GumbelTopK(), length=steps, beams=beams, branch=branch
        )
        there = jnp.isfinite(found.log_probs[0, :n, None])  # the first stands in where there were fewer
        return jnp.where(there, found.tokens[0, :n], found.tokens[0, :1])

    def continued(
        self, key: Key, x: Int[Array, "batch events"], length: int, **options: Any
    ) -> Int[Array, "batch length"]:
        """The next events after each excerpt, drawn at a `temperature`, of a class with `condition`."""
        condition = self._classes(options.pop("condition", None), len(x))
        allowed = rules(len(self.schema.tokens), **options)
        read = jnp.concatenate([jnp.full((len(x), 1), _BLANK, x.dtype), x], axis=1)
        state, logits = _begun(self, read, condition, read.shape[1] + length)
        return write(self.advance, state, logits, key, allowed, length=length).tokens

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """A held-out excerpt and how it goes on from its middle; what is hard to foresee."""
        part, _ = data.held_out()
        x, y = part.batch(np.arange(min(len(part), 64)))[:2]
        nats = np.asarray(_nats(self, jnp.asarray(x), None if y is None else jnp.asarray(y)))
        half = x.shape[1] // 2
        condition = None if y is None else np.asarray(y)[:1]
        begun = jnp.asarray(x[:1, :half])
        after = self.continued(random.named(key, "music"), begun, x.shape[1] - half, condition=condition)
        whole = np.concatenate([x[:1, :half], np.asarray(after)], axis=1)
        return [
            *music_pictures.continuation(x[0], whole[0], half),
            music_pictures.by_kind(x, nats),
        ]

    def _inputs(
        self, x: Int[Array, "batch time"], control: Float[Array, "batch classes"]
    ) -> Float[Array, "batch time inputs"]:
        events = one_hot(x, len(self.schema.tokens), self.head.weight)
        if not self.schema.classes:
            return events
        beside = jnp.broadcast_to(control[:, None], (*x.shape, control.shape[1])).astype(events.dtype)
        return jnp.concatenate([events, beside], axis=-1)

    def _control(self, classes: Array | None, batch: int) -> Float[Array, "batch classes"]:
        """A one for the class; nothing where none is said."""
        count = len(self.schema.classes)
        if classes is None or not count:
            return jnp.zeros((batch, count), self.head.weight.dtype)
        return jax.nn.one_hot(classes, count, dtype=self.head.weight.dtype)

    def _classes(self, condition: Any, n: int) -> Int[Array, " n"] | None:
        """The class of each of `n` pieces, as numbers."""
        if condition is None:
            return None
        count = len(self.schema.classes)
        numbers = np.asarray(condition)
        if not count:
            raise ArgumentError("condition: the music of training had no classes", remedy="leave it out")
        if numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= count:
            known = ", ".join(f"{number} ({name})" for number, name in enumerate(self.schema.classes[:10]))
            raise ArgumentError(f"condition={condition}: no such class", remedy=f"classes: {known}")
        return jnp.broadcast_to(jnp.asarray(numbers, jnp.int32), (n,))


@eqx.filter_jit
def _begun(
    model: MusicModel, read: Int[Array, "rows time"], classes: Array | None, room: int
) -> tuple[DecodingState, Float[Array, "rows vocabulary"]]:
    """The state after a beginning, and the logits of what follows."""
    logits, state = model.advance(model.start(len(read), room, classes), read)
    return state, logits[:, -1]


@eqx.filter_jit
def _nats(model: MusicModel, x: Array, y: Array | None) -> Array:
    return model.event_nats(x, y)


__all__ = ["MusicConfig", "MusicModel"]
