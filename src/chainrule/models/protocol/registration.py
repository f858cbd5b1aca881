"""Registration of models: settings, recipes, the entry of the registry."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.core.settings import Config
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol.model import Model
from chainrule.models.protocol.weights import FileFormat, HuggingFace, Name, NameTable


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
    work: Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], float] | None = None
    """From settings of the model, of the data and of training to the arithmetic operations of the whole training.

    For recipes that are meant for a GPU: on a CPU, the command line refuses what would take longer than a day.
    """


@final
@dataclass(frozen=True)
class Entry:
    """What the rest of the project knows about a model before building it."""

    name: str
    summary: str
    """One line."""
    config: type[Config]
    build: Callable[..., Model]
    """From (config, schema of the data, key) to a model with a static field `config`; with `holds`, and its `body`."""
    kinds: Sequence[str]
    targets: Sequence[str]
    """Data the model can be trained on."""
    data: str
    """Data it is trained on when none are named."""
    toy: Mapping[str, Any]
    """Settings small enough for tests on `toy_data`."""
    toy_data: str
    citation: str
    target_data: str = ""
    """The other domain it is brought to when neither that nor data are named; empty for a model of one domain."""
    unadapted: Mapping[str, Any] = field(default_factory=dict)
    """Settings under which a model of two domains learns from the first alone, to be compared with."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Training settings that suit this model, where they differ from the general defaults."""
    training_on: Callable[[Schema], Mapping[str, Any]] | None = None
    """From the schema of some data to training settings that suit this model on those, over the ones of `training`."""
    suited: Callable[[Any, Schema, int | None], Mapping[str, Any]] | None = None
    """From (config, schema, number of training examples where known) to settings that suit those data.

    They take the place of defaults, never of a setting that was given.
    """
    measured: Callable[[Any, Data], Mapping[str, Any]] | None = None
    """From (config, data) to settings that training examples tell, likewise; it may warn of what they cannot teach."""
    started: Callable[[Any, Data], Model] | None = None
    """From (fresh model, data) to the model that training begins with, where training examples say how."""
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    """Settings that go together, by name."""
    torch_names: Callable[[Any], Mapping[str, Name] | NameTable] | None = None
    """From a model to the names PyTorch's libraries have for its layers: `{"head": "fc"}`."""
    layouts: Mapping[str, Callable[[Any], Mapping[str, Name] | NameTable]] = field(default_factory=dict)
    """From a model to the names that further libraries have for its layers, by library."""
    published: Callable[[Mapping[str, tuple[int, ...]]], Mapping[str, Any]] | None = None
    """From the shapes in a file of weights to the settings of the model that has them, and of what it expects."""
    described: Callable[..., Mapping[str, Any]] | None = None
    """From `config.json`, `preprocessor_config.json` (where there is one) and the shapes to the settings they say."""
    untold: tuple[str, ...] = ()
    """Settings that shapes do not tell and `published` assumes: what was assumed is said."""
    head: str = "head"
    """The layer that gives the outputs: a new one replaces it where weights serve for other classes."""
    sized: Callable[..., Model] | None = None
    """From the shapes in a file of weights, a tokenizer and settings to a model with shapes that these weights fit."""
    hugging_face: HuggingFace | None = None
    """How folders of Hugging Face's transformers describe this model."""
    formats: Mapping[str, FileFormat] = field(default_factory=dict)
    """Files of weights that are not safetensors, by the ending of their names."""
    adopts: Callable[[Any, str], Mapping[str, Any]] | None = None
    """From a trained model and its name to the settings under which this one holds it as its `body`."""
    body_of: Callable[[Any], Model] | None = None
    """From a trained model, also one of this entry, to what becomes the `body`; unless given, the model itself.

    Without it a model of this entry that begins with another of it takes over everything.
    """
    holds: bool = False
    """Whether it holds a model of any family as its `body`, which `build` is given as a fourth argument.

    Its config has a field `body`, a dictionary: the `name` of the other model and its settings, all of them once built.
    What `started` does is done again once a trained body is in its place.
    """
    former_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings that had another name in an earlier version, dotted: `{"dropping": "condition_dropout"}`.

    A run folder that holds a former name is read as if it held the present one. Nowhere else does a former name work:
    the error it gives says the present one.
    """
    former_arrays: Mapping[str, str] = field(default_factory=dict)
    """Arrays that had another name in an earlier version, by the segments that changed: `{"nobody": "null_embedding"}`.

    Former segments are replaced wherever in the name of an array they stand, so that weights, averages and optimiser
    state are all found; `*` stands for any one segment (`{"blocks.*.inner": "layers.*.network"}`), and an empty new
    name drops the segments. Rows apply in order. Give as many segments as tell the former name from every present one.
    """
    became: Callable[[Mapping[str, Any]], tuple[str, Mapping[str, Any]] | None] | None = None
    """From settings of an earlier version to the name and settings of the model that is today what they meant.

    A run folder that holds them is read as one of that model, whose `former_arrays` apply. One of another model is not
    gone on with, for the losses of the two need not be comparable: another run may begin with it.
    """
    surrogate_gradient: str = ""
    """Why the gradient of the loss is, on purpose, not its derivative (straight-through or stopped); empty if it is."""

    def adapts(self, settings: Mapping[str, Any]) -> bool:
        """Whether a model of these settings is brought to another domain that it learns beside."""
        return any(settings.get(name) != value for name, value in self.unadapted.items())

    def training_for(self, schema: Schema) -> dict[str, Any]:
        """Training settings that suit this model on data of this schema, where none are given."""
        settings = dict(self.training)
        for name, value in ({} if self.training_on is None else self.training_on(schema)).items():
            both = isinstance(value, Mapping) and isinstance(settings.get(name), Mapping)
            settings[name] = {**settings[name], **value} if both else value
        return settings


__all__ = ["Config", "Entry", "Recipe"]
