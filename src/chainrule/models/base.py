"""The protocol every model follows.

A model is a PyTree of arrays with a differentiable `loss`. Whatever else it can do is a capability: a small abstract
class with one or two methods. Training, scoring, sampling, reports and comparisons ask `isinstance(model, CanSample)`
and never what a model is called. All methods take a leading batch axis; data come scaled, in the units of the data
source, which knows the way back.
"""

# Long because a family of models knows this module and no other: every capability has to stand here, with two or
# three lines of code each.

import abc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import pydantic

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.data.base import Batch, Data, Kind, Schema, Target
from chainrule.data.tokenizers import Tokenizer
from chainrule.nn import losses
from chainrule.nn.recurrent import Recurrent

Metrics = Mapping[str, Array]


class Model(eqx.Module):
    """Something that can be trained: arrays and a loss."""

    @abc.abstractmethod
    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean loss over the batch, and named scalars (means over the batch) worth watching."""


class CanSample(Model):
    """Draws new examples."""

    @abc.abstractmethod
    def sample(self, key: Key, n: int, **options: Any) -> Array:
        """`n` new examples, in model units. `condition` is the option for class-conditional models."""


class HasRequest(CanSample):
    """Draws examples after pictures that can be shown beside them."""

    @abc.abstractmethod
    def request(self, n: int, **options: Any) -> Array | None:
        """The picture in [0, 1] that each of `n` examples is to follow under these options of `sample`, if any."""


class State(eqx.Module):
    """What a model remembers of the symbols it has read: arrays whose shapes do not change as it reads on."""

    position: eqx.AbstractVar[Int[Array, ""]]
    """How many symbols were read, the same for the whole batch."""

    @abc.abstractmethod
    def fork(self, rows: Int[Array, " rows"]) -> Self:
        """The state of these rows of the batch, which may come repeatedly and in any order."""

    @abc.abstractmethod
    def rewind(self, position: int | Int[Array, ""]) -> Self:
        """The state as it was after the first `position` symbols; a `CapabilityError` where these are not kept."""


@final
@dataclass(frozen=True)
class Piece:
    """One symbol of a text that is being written."""

    token: int
    text: str
    """What can be shown by now; empty while a character is incomplete or may turn out to begin a stop string."""
    log_prob: float
    """Log-probability of the symbol under the model as it is, in nats."""
    alternatives: tuple[tuple[str, float], ...]
    """The symbols the model finds likeliest here, with their probabilities."""
    per_second: float
    """Symbols written per second so far, compilation left out."""


class CanContinue(CanSample):
    """Writes on from a beginning, one symbol at a time."""

    @abc.abstractmethod
    def start(self, batch: int, room: int) -> State:
        """The state before the first symbol, with room for this many symbols.

        More room than the model's context asks for a sliding window: a `CapabilityError` where that makes no sense.
        """

    @abc.abstractmethod
    def advance(
        self, state: State, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], State]:
        """Read symbols, one or many: the logits of the symbol after each of them, and the state after the last."""

    @abc.abstractmethod
    def stream(self, key: Key, prompt: str = "", **options: Any) -> Iterator[Piece]:
        """Write a text symbol by symbol; the symbols are those of the first row of `sample` with the same key."""


class Hypothesis(NamedTuple):
    """One of the texts that a search ends with."""

    text: str
    """Without the prompt."""
    log_prob: float
    """Log-probability of its symbols, in nats."""
    rank: float
    """What it was compared by: the higher the better."""


class CanSearch(CanContinue):
    """Keeps several texts at once while it writes, and compares them."""

    @abc.abstractmethod
    def search(self, key: Key, prompt: str = "", *, beams: int = 4, **options: Any) -> Sequence[Hypothesis]:
        """The texts that a search with this many beams ends with, the best first."""


class CanTranslate(CanSample):
    """Turns a text into another: a model of targets given their sources, rows with an end mark as in `data.Pairs`."""

    @abc.abstractmethod
    def log_prob_given(
        self, y: Int[Array, "batch target"], x: Int[Array, "batch source"]
    ) -> Float[Array, " batch"]:
        """Natural logarithm of the probability of each target, its end included, given its source."""

    @abc.abstractmethod
    def translate(self, x: Int[Array, "batch source"], *, beams: int = 1) -> Int[Array, "batch target"]:
        """The target each source most likely becomes: the best that a beam of this width finds, greedily for 1."""


class HasAlignment(Model):
    """Looks back at a source while it writes, and can tell where it looked."""

    @abc.abstractmethod
    def alignment_names(self) -> Sequence[str]:
        """What each of its maps is called, "layer 1, head 2"; empty if it has been built without any."""

    @abc.abstractmethod
    def alignment(
        self, x: Int[Array, "batch source"], y: Int[Array, "batch target"]
    ) -> Float[Array, "batch maps target source"]:
        """How much each symbol of a target was read from each of its source; rows sum to one."""


class HasLogProb(Model):
    """Knows the density of an example exactly."""

    @abc.abstractmethod
    def log_prob(self, x: Array) -> Float[Array, " batch"]:
        """Natural logarithm of the density (or probability) of each example, in model units."""


class HasSurprise(HasLogProb):
    """Knows the probability of every single symbol given those before it."""

    @abc.abstractmethod
    def surprise(
        self, x: Int[Array, "batch symbols"], key: Key | None = None
    ) -> Float[Array, "batch predicted"]:
        """Minus the log-probability of each symbol after the first, in nats; a key switches dropout on."""


class CanPack(HasSurprise):
    """Reads several documents that share a row, each by itself."""

    @abc.abstractmethod
    def surprise_apart(
        self, x: Int[Array, "batch symbols"], documents: Int[Array, "batch symbols"], key: Key | None = None
    ) -> Float[Array, "batch predicted"]:
        """The surprise of each symbol after the first, given those before it in its own document.

        `documents` numbers the documents of a row, -1 stands for padding. What is said about the first symbol of a
        document and about padding means nothing; see `data.base.predicted`.
        """


class CanPad(CanContinue):
    """Goes on from beginnings of different length at once, which end together: padding stands before the shorter."""

    @abc.abstractmethod
    def start_padded(self, padding: Int[Array, " batch"], room: int) -> State:
        """As `start`, for rows whose first `padding` symbols are to be seen by nobody and count as no places."""


class HasBound(Model):
    """Knows a lower bound of the log-density."""

    @abc.abstractmethod
    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """A lower bound of `log p(x)` for each example in nats (one-sample estimate)."""


class Scored(NamedTuple):
    """One number for each example, and its unit."""

    values: Array
    unit: str = ""


class Bounded(NamedTuple):
    """The bound of each example, and numbers that came from the same look at it."""

    elbo: Array
    parts: Mapping[str, Scored]


class HasBoundParts(HasBound):
    """Knows what its bound is made of."""

    @abc.abstractmethod
    def bound(self, batch: Batch, key: Key) -> Bounded:
        """The bound of each example as `elbo` has it, with its parts and, where targets help, the bound given them."""


class HasScores(Model):
    """Has numbers of its own by which it is judged, beyond those its capabilities give."""

    @abc.abstractmethod
    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """Named numbers for each example; scoring reports their means and standard errors."""


class CanEncode(Model):
    """Maps examples to codes."""

    @abc.abstractmethod
    def encode(self, x: Array) -> Array:
        """A code for each example."""


class HasJointSpace(CanEncode):
    """Maps examples and their targets to vectors of length one in the same space."""

    @abc.abstractmethod
    def encode_target(self, y: Array) -> Float[Array, "batch features"]:
        """The vector of each target; that of an example it belongs to is near."""


class CanDecode(Model):
    """Maps codes to examples."""

    @abc.abstractmethod
    def decode(self, z: Array) -> Array:
        """An example for each code, in model units."""


class CanPredict(Model):
    """Predicts targets."""

    @abc.abstractmethod
    def predict(self, x: Array) -> Array:
        """Probabilities of classes or labels (batch, classes), or values in model units (batch, *target_shape)."""


def output_count(schema: Schema) -> int:
    """How many numbers a network that predicts has to give for one example.

    >>> output_count(Schema("table", (6,), target="value", target_shape=(2, 2)))
    4
    """
    return len(schema.classes) if schema.target == "class" else math.prod(schema.target_shape)


def supervised_loss(schema: Schema, out: Float[Array, "batch outputs"], y: Array) -> tuple[Scalar, Metrics]:
    """Mean cross-entropy of logits with accuracy (for labels: all of an example's right), or mean squared error."""
    if schema.target == "class":
        return losses.cross_entropy(out, y).mean(), {"accuracy": (out.argmax(axis=-1) == y).mean()}
    if schema.target == "labels":
        metrics = {"exact_match": ((out > 0) == (y > 0)).all(axis=-1).mean()}
        return losses.binary_cross_entropy(out, y.astype(jnp.float32)).mean(), metrics
    return losses.squared_error(out.reshape(y.shape), y).mean(), {}


def as_prediction(schema: Schema, out: Float[Array, "batch outputs"]) -> Array:
    """What `CanPredict.predict` promises, from logits or values."""
    wide = out.astype(jnp.promote_types(out.dtype, jnp.float32))
    if schema.target == "class":
        return jax.nn.softmax(wide, axis=-1)
    if schema.target == "labels":
        return jax.nn.sigmoid(wide)
    return out.reshape(out.shape[0], *schema.target_shape)


class HasState(Model):
    """Carries arrays that training moves by rule instead of by gradient, such as running averages."""

    @abc.abstractmethod
    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The loss, its metrics, and the same model with its state moved on by this batch."""

    @abc.abstractmethod
    def state(self) -> Sequence[Array]:
        """The arrays that are moved by rule.

        Training takes no gradient for them, does not decay them and keeps them in single precision. An array that is
        not named here is a parameter.
        """

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """The loss alone."""
        loss, metrics, _ = self.loss_and_state(batch, key)
        return loss, metrics


M = TypeVar("M", bound=Model)


@final
@dataclass(frozen=True)
class Part(Generic[M]):
    """One player of a model: the arrays it owns, what it minimises, and how often it moves.

    A step lets every part move in order; each has its own optimiser. A generator that moves once for five moves of
    its critic is `Part("critic", ..., repeat=5)` and `Part("generator", ...)`.
    """

    name: str
    where: Callable[[M], Tree]
    """The sub-tree this part owns, e.g. `lambda model: model.critic`."""
    loss: Callable[[M, Batch, Key], tuple[Scalar, Metrics, M]]
    """What it minimises: the loss, its metrics, and the model with its state moved on (as it came, without any)."""
    repeat: int = 1
    """Moves per step, each on a fresh batch."""
    every: int = 1
    """Moves only in steps divisible by this."""
    state: Callable[[M], Sequence[Array]] = lambda model: ()
    """Arrays of the model that the loss of this part moves by rule; see `HasState.state`."""


class HasParts(Model):
    """Is trained by several players with losses of their own."""

    @abc.abstractmethod
    def parts(self) -> Sequence[Part[Any]]:
        """The players, in the order in which they move."""


def parts_of(model: Model) -> Sequence[Part[Any]]:
    """The players of any model; one that minimises a single loss is its own only player."""
    if isinstance(model, HasParts):
        return model.parts()
    if isinstance(model, HasState):
        return [
            Part(
                "model",
                lambda model: model,
                lambda model, batch, key: model.loss_and_state(batch, key),
                state=lambda model: model.state(),
            )
        ]
    return [Part("model", lambda model: model, lambda model, batch, key: (*model.loss(batch, key), model))]


class HasAttention(Model):
    """Lets positions of a sequence attend to each other, in heads that can be looked at one by one."""

    @abc.abstractmethod
    def attention(self, x: Int[Array, "batch time"]) -> Float[Array, "batch layers heads time time"]:
        """How much each position (a row) takes from each (a column), in every head of every layer."""

    @abc.abstractmethod
    def without_head(self, layer: int, head: int) -> Self:
        """The same model in which what this head gathers is not passed on."""


class HasLens(Model):
    """Can say what it would predict if its layers ended early."""

    @abc.abstractmethod
    def lens(self, x: Int[Array, "batch time"]) -> Float[Array, "depth batch time vocabulary"]:
        """Logits read out before the first layer and after each of them; the last are those of the model."""


class HasRecurrence(Model):
    """Carries states along time in recurrent layers that can be looked at one by one."""

    @abc.abstractmethod
    def recurrence(self, x: Array) -> Sequence[tuple[Recurrent, Float[Array, "batch time inputs"]]]:
        """Every recurrent layer with what it reads, for a batch of sequences."""


class HasEmbedding(Model):
    """Gives every symbol of its vocabulary a vector."""

    @abc.abstractmethod
    def embeddings(self) -> Float[Array, "symbols features"]:
        """One row for each symbol."""


class HasPictures(Model):
    """Offers pictures of its own beyond those its capabilities give."""

    @abc.abstractmethod
    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Pictures of the trained model on its data."""


class Flattened(NamedTuple):
    """The name of a dense layer that acts on a flattened feature map of this grid.

    The order of its inputs depends on the library: channels last here, channels first in PyTorch.
    """

    name: str
    grid: tuple[int, ...]


class InOut(NamedTuple):
    """The name of a dense layer whose matrix is stored as (inputs, outputs), as GPT-2 has it.

    Some programs write the same names with (outputs, inputs). Which of the two a file holds is read from its matrices
    that are not square, all of which must agree.
    """

    name: str


class Joined(NamedTuple):
    """The names of several dense layers that are one here, side by side: queries, keys and values."""

    names: tuple[str, ...]
    widths: tuple[int, ...]
    """The outputs of each, in the same order."""


Name: TypeAlias = str | Flattened | InOut | Joined


@final
@dataclass(frozen=True)
class NameTable:
    """Names of layers, and what else is particular about the files of a library."""

    layers: Mapping[str, Name]
    prefix: str = ""
    """What may stand before every name."""
    ignored: tuple[str, ...] = ()
    """Endings of names that hold no weights, such as masks."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Names that repeat another array, where they are there at all: `{"lm_head.weight": "wte.weight"}`."""


class FileFormat(NamedTuple):
    """How to read the files of a program that has a format of its own."""

    weights: Callable[[Path, Tokenizer], Model]
    tokenizer: Callable[[Path], Tokenizer]


class Config(pydantic.BaseModel):
    """Settings of a model: one schema for Python, the command line and the studio."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", validate_default=True)


@final
@dataclass(frozen=True)
class Recipe:
    """Settings that go together, under a name a user can say: `chainrule train gpt recipe=char-cpu`."""

    summary: str
    """One line."""
    model: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    """Options of the data, without their name."""
    train: Mapping[str, Any] = field(default_factory=dict)
    """Training settings, over those that suit the model."""


@final
@dataclass(frozen=True)
class Entry:
    """What the rest of the project knows about a model before building it."""

    name: str
    summary: str
    """One line."""
    config: type[Config]
    build: Callable[[Any, Schema, Key], Model]
    """From (config, schema of the data, key) to a model with a static field `config`."""
    kinds: Sequence[Kind]
    targets: Sequence[Target]
    """Data the model can be trained on."""
    data: str
    """Data it is trained on when none are named."""
    toy: Mapping[str, Any]
    """Settings small enough for tests on `toy_data`."""
    toy_data: str
    citation: str
    training: Mapping[str, Any] = field(default_factory=dict)
    """Training settings that suit this model, where they differ from the general defaults."""
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    """Settings that go together, by name."""
    torch_names: Callable[[Any], Mapping[str, Name] | NameTable] | None = None
    """From a model to the names PyTorch's libraries have for its layers: `{"head": "fc"}`."""
    sized: Callable[..., Model] | None = None
    """From the shapes in a file of weights, a tokenizer and settings to a model that these weights fit."""
    formats: Mapping[str, FileFormat] = field(default_factory=dict)
    """Files of weights that are not safetensors, by the ending of their names."""
    adopts: Callable[[Any, str], Mapping[str, Any]] | None = None
    """From a trained model and its name to the settings under which this one holds it as its `body`."""
    surrogate_gradient: str = ""
    """Why the gradient of the loss is, on purpose, not its derivative (straight-through or stopped); empty if it is."""


__all__ = [
    "Bounded",
    "CanContinue",
    "CanDecode",
    "CanEncode",
    "CanPack",
    "CanPad",
    "CanPredict",
    "CanSample",
    "CanSearch",
    "CanTranslate",
    "Config",
    "Entry",
    "FileFormat",
    "Flattened",
    "HasAlignment",
    "HasAttention",
    "HasBound",
    "HasBoundParts",
    "HasEmbedding",
    "HasJointSpace",
    "HasLens",
    "HasLogProb",
    "HasParts",
    "HasPictures",
    "HasRecurrence",
    "HasRequest",
    "HasScores",
    "HasState",
    "HasSurprise",
    "Hypothesis",
    "InOut",
    "Joined",
    "Metrics",
    "Model",
    "Name",
    "NameTable",
    "Part",
    "Piece",
    "Recipe",
    "Scored",
    "State",
    "as_prediction",
    "output_count",
    "parts_of",
    "supervised_loss",
]
