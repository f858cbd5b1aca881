"""Music event by event: recurrent layers or a transformer give the probability of what comes next."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field, model_validator

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.inputs import pieces
from chainrule.data.schema import Schema
from chainrule.information.compression.direct import EntryCode
from chainrule.information.compression.sources import HasCode
from chainrule.models.audio.music import controls
from chainrule.models.audio.music.classes import ClassParts, parts_of
from chainrule.models.audio.music.coding import music_code
from chainrule.models.audio.music.controls import ControlName
from chainrule.models.audio.music.network import (
    AttentiveReader,
    EventReader,
    MusicState,
    RecurrentReader,
    one_hot,
)
from chainrule.models.audio.music.options import MusicOptions
from chainrule.models.protocol import (
    CanCompose,
    Config,
    HasPictures,
    HasScores,
    Metrics,
    OptionGroup,
    Scored,
    read_options,
)
from chainrule.models.protocol.decoding.beam import GumbelTopK, search
from chainrule.models.protocol.decoding.rules import rules
from chainrule.models.protocol.decoding.sampling import write
from chainrule.models.protocol.text import DecodingState
from chainrule.networks.pictures import music as music_pictures
from chainrule.nn import Linear, losses

_BLANK = -1
"""What is read before the first event."""


class _Said(NamedTuple):
    """What is said of each piece that is drawn."""

    ones: Float[Array, "pieces parts"] | None
    """Ones for the names of its class."""
    levels: Int[Array, "pieces controls"] | None
    """Of each control."""


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
        description="share of examples whose class is hidden in training, to draw without one; of classes of several "
        "folders each name in every second of the others, too",
    )
    controls: tuple[ControlName, ...] = Field(
        controls.NAMES,
        description="what is told of each example beside its class, measured in it; empty: nothing",
    )
    control_dropout: float = Field(
        0.5,
        ge=0,
        le=1,
        description="share of examples of which training says no control; of the others each every second time",
    )

    @model_validator(mode="after")
    def _once_each(self) -> Self:
        if len(set(self.controls)) < len(self.controls):
            raise ValueError(f"controls={','.join(self.controls)}: name each control once")
        return self


@final
class MusicModel(CanCompose, HasScores, HasPictures, HasCode):
    """`p(x) = Π_t p(x_t | x_<t, class, controls)`; what is said of the music goes with every event."""

    reader: EventReader
    head: Linear
    config: MusicConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    inference: bool

    def __init__(self, config: MusicConfig, schema: Schema, key: Key) -> None:
        events = len(schema.tokens)
        beside = len(parts_of(schema.classes).names) + controls.size(config.controls)
        for_reader, for_head = jax.random.split(key)
        if config.body == "lstm":
            self.reader = RecurrentReader(
                events + beside, config.width, config.depth, config.dropout, for_reader
            )
        else:
            if config.width % config.heads:
                raise ArgumentError(
                    f"heads={config.heads}: heads must divide width={config.width}",
                    remedy=f"use width={config.heads * max(1, config.width // config.heads)}",
                )
            sizes = config.width, config.depth, config.heads
            self.reader = AttentiveReader(events + beside, *sizes, config.dropout, for_reader)
        self.head = Linear(config.width, events, initializer="xavier", key=for_head)
        self.config = config
        self.schema = schema
        self.inference = False

    @property
    def conditional(self) -> bool:
        """Where the data have classes."""
        return bool(self.schema.classes)

    @property
    def class_parts(self) -> ClassParts:
        """The names of the classes, which for folders in folders are made of several."""
        return parts_of(self.schema.classes)

    def loss_unit(self) -> str:
        """That of a log-probability."""
        return "nats per event"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean nats per event; in training some examples do not say their class, and most not all their controls.

        Controls are measured in the example itself: where a model is judged, none is said.
        """
        if self.inference:
            return self.event_nats(batch.x, batch.y).mean(), {}
        for_classes, for_controls, for_layers = jax.random.split(key, 3)
        ones = None if batch.y is None else self.class_parts.ones(batch.y)
        if ones is not None:
            ones = self.class_parts.hidden(for_classes, ones, self.config.condition_dropout)
        levels = controls.measured(self.config.controls, batch)
        levels = controls.hidden(for_controls, levels, self.config.control_dropout)
        return self._nats(batch.x, self._beside(ones, levels, len(batch.x)), for_layers).mean(), {}

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """Nats of an event: with the class and without, and with all controls said too."""
        del key
        found = {"nats_per_event": Scored(self.event_nats(batch.x, batch.y).mean(axis=1), "nats/event")}
        if batch.y is not None:
            found["nats_per_event_unconditional"] = Scored(
                self.event_nats(batch.x).mean(axis=1), "nats/event"
            )
        if self.config.controls:
            levels = controls.measured(self.config.controls, batch)
            ones = None if batch.y is None else self.class_parts.ones(batch.y)
            given = self._nats(batch.x, self._beside(ones, levels, len(batch.x)), None)
            found["nats_per_event_controls_told"] = Scored(given.mean(axis=1), "nats/event")
        return found

    def event_nats(
        self, x: Int[Array, "batch events"], condition: Int[Array, " batch"] | None = None
    ) -> Float[Array, "batch events"]:
        """All events at once; the first is read after nothing, and no control is said."""
        ones = None if condition is None else self.class_parts.ones(condition)
        return self._nats(x, self._beside(ones, None, len(x)), None)

    def _nats(
        self, x: Int[Array, "batch events"], beside: Float[Array, "batch numbers"], key: Key | None
    ) -> Float[Array, "batch events"]:
        before = jnp.concatenate([jnp.full_like(x[:, :1], _BLANK), x[:, :-1]], axis=1)
        return losses.cross_entropy(self.head(self.reader(self._inputs(before, beside), key)), x)

    def start(
        self,
        batch: int,
        room: int,
        ones: Float[Array, "batch parts"] | None = None,
        levels: Int[Array, "batch controls"] | None = None,
    ) -> MusicState:
        """Nothing read yet; `ones` has ones for the names of each class."""
        beside = self._beside(ones, levels, batch)
        return MusicState(jnp.zeros((), jnp.int32), self.reader.start(batch, room), beside)

    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], DecodingState]:
        """Read on from a state of `start`; -1 is nothing, with which all music begins."""
        assert isinstance(state, MusicState)
        features, memory = self.reader.advance(self._inputs(tokens, state.beside), state.memory)
        moved = MusicState(state.position + tokens.shape[1], memory, state.beside)
        return self.head(features), moved

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """What the music is to be like, what it goes on from, and how it is drawn."""
        return [OptionGroup("options", "Options of this model.", MusicOptions)]

    def sample(self, key: Key, n: int, **options: Any) -> Int[Array, "n events"]:
        """New music from its beginning, or after a `start`, which it then begins with.

        With beams, distinct pieces are drawn without replacement. Of a start longer than the examples of training the
        end is read.
        """
        chosen = read_options(self.sample_options(), options)["options"]
        assert isinstance(chosen, MusicOptions)
        length = self.schema.shape[0] if chosen.length is None else chosen.length
        said = self._said(chosen, n)
        if chosen.start is None:
            return self._drawn(key, jnp.zeros((n, 0), jnp.int32), length, said, chosen)
        begun = pieces.read(chosen.start)
        room = max(self.schema.shape[0] - length, self.schema.shape[0] // 2, 1)
        rows = jnp.broadcast_to(jnp.asarray(begun), (n, len(begun)))
        return jnp.concatenate([rows, self._drawn(key, rows[:, -room:], length, said, chosen)], axis=1)

    def continued(
        self, key: Key, x: Int[Array, "batch events"], length: int, **options: Any
    ) -> Int[Array, "batch length"]:
        """The next events after each excerpt; the options are those of `sample`, but for a `start`."""
        chosen = read_options(self.sample_options(), {**options, "length": length})["options"]
        assert isinstance(chosen, MusicOptions)
        return self._drawn(key, x, length, self._said(chosen, len(x)), chosen)

    def _drawn(
        self, key: Key, x: Int[Array, "batch events"], length: int, said: _Said, chosen: MusicOptions
    ) -> Int[Array, "batch length"]:
        """So many events after each row."""
        n = len(x)
        read = jnp.concatenate([jnp.full((n, 1), _BLANK, x.dtype), x], axis=1)
        allowed = rules(len(self.schema.tokens), temperature=chosen.temperature, top_p=chosen.top_p)
        if chosen.beams is None:
            if chosen.branch is not None:
                raise ArgumentError(f"branch={chosen.branch}: only beams branch", remedy="give beams=8 too")
            state, logits = _begun(self, read, said, read.shape[1] + length)
            return write(self.advance, state, logits, key, allowed, length=length).tokens
        if n > chosen.beams or (said.ones is not None and len(np.unique(np.asarray(said.ones), axis=0)) > 1):
            raise ArgumentError(
                f"n={n} beams={chosen.beams}: beams give at most so many pieces, all of one class",
                remedy=f"use n={min(n, chosen.beams)} and a single class",
            )
        first = _Said(*(None if one is None else one[:1] for one in said))
        state, logits = _begun(self, read[:1], first, read.shape[1] + length)
        found = search(
            *(self.advance, state, logits, key, allowed, GumbelTopK()),
            length=length,
            beams=chosen.beams,
            branch=chosen.branch,
        )
        there = jnp.isfinite(found.log_probs[0, :n, None])  # the first stands in where there were fewer
        return jnp.where(there, found.tokens[0, :n], found.tokens[0, :1])

    def code(self) -> EntryCode:
        """Event after event, each by its probability given those before it."""
        return music_code(self, _BLANK)

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
        self, x: Int[Array, "batch time"], beside: Float[Array, "batch numbers"]
    ) -> Float[Array, "batch time inputs"]:
        events = one_hot(x, len(self.schema.tokens), self.head.weight)
        if not beside.shape[1]:
            return events
        wide = jnp.broadcast_to(beside[:, None], (*x.shape, beside.shape[1])).astype(events.dtype)
        return jnp.concatenate([events, wide], axis=-1)

    def _beside(
        self,
        ones: Float[Array, "batch parts"] | None,
        levels: Int[Array, "batch controls"] | None,
        batch: int,
    ) -> Float[Array, "batch numbers"]:
        """A one for each name of the class and for the level of each control; nothing where none is said."""
        names = self.config.controls
        ones = jnp.zeros((batch, len(self.class_parts.names))) if ones is None else ones
        levels = jnp.full((batch, len(names)), controls.UNSAID) if levels is None else levels
        return jnp.concatenate([ones, controls.vectors(names, levels)], axis=1).astype(self.head.weight.dtype)

    def _said(self, chosen: MusicOptions, n: int) -> _Said:
        """The class and the controls of each of `n` pieces, as numbers."""
        levels = controls.asked(self.config.controls, chosen.controls)
        wide = None if levels is None else jnp.broadcast_to(jnp.asarray(levels), (n, len(levels)))
        classes = self._classes(chosen.condition, n)
        if chosen.of is None:
            return _Said(None if classes is None else self.class_parts.ones(classes), wide)
        if classes is not None:
            raise ArgumentError(f"of={chosen.of}: a class is said too", remedy="give one of them")
        ones = self.class_parts.of(chosen.of)
        return _Said(jnp.broadcast_to(jnp.asarray(ones), (n, len(ones))), wide)

    def _classes(self, condition: Any, n: int) -> Int[Array, " n"] | None:
        if condition is None:
            return None
        count = len(self.schema.classes)
        numbers = np.asarray(condition)
        if not count:
            raise ArgumentError("condition: the music of training had no classes", remedy="leave it out")
        if numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= count:
            known = ", ".join(f"{number} ({name})" for number, name in enumerate(self.schema.classes[:10]))
            raise ArgumentError(f"condition={condition}: no such class", remedy=f"classes: {known}")
        if numbers.shape not in ((), (1,), (n,)):
            raise ArgumentError(
                f"condition: {numbers.shape} classes for {n} pieces",
                remedy="give one for all, or one for each",
            )
        return jnp.broadcast_to(jnp.asarray(numbers, jnp.int32), (n,))


@eqx.filter_jit
def _begun(
    model: MusicModel, read: Int[Array, "rows time"], said: _Said, room: int
) -> tuple[DecodingState, Float[Array, "rows vocabulary"]]:
    """The state after a beginning, and the logits of what follows."""
    logits, state = model.advance(model.start(len(read), room, *said), read)
    return state, logits[:, -1]


@eqx.filter_jit
def _nats(model: MusicModel, x: Array, y: Array | None) -> Array:
    return model.event_nats(x, y)


__all__ = ["MusicConfig", "MusicModel"]
