"""Models by family, and the table of their names.

A model is a folder `models/<family>/<name>/` that holds a `card.md` and, in its `__init__.py`, an `entry`. The folder
is the registration: names come from the tree, nothing has to be listed anywhere else, and a model's code is imported
only when it is asked for.
"""

import functools
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import equinox as eqx
import pydantic

from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError, check_choice, suggest
from chainrule.core.quoting import shell_word
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text.tokenizers import Tokenizer
from chainrule.models import base, fitting, interchange, protocol, sizing, starting
from chainrule.models.interchange import Imported, Names, exported, folders, opening, published, weight_files
from chainrule.models.interchange.opening import OpenedWeights
from chainrule.models.interchange.published import PublishedSettings
from chainrule.models.onnx_files import export_onnx
from chainrule.models.own_names import own_names
from chainrule.models.protocol import Config, Entry, Model, weight_checks
from chainrule.models.summaries import summary
from chainrule.models.validation import explain, setting_names
from chainrule.models.wrapping import Wrapped, wrap

_HERE = Path(__file__).parent


@functools.cache
def _folders() -> dict[str, Path]:
    return {card.parent.name.replace("_", "-"): card.parent for card in sorted(_HERE.glob("*/*/card.md"))}


def names() -> list[str]:
    """Every registered model.

    >>> "mlp" in names()
    True
    """
    return list(_folders())


def entry(name: str) -> Entry:
    """The registry entry of a model.

    >>> entry("mpl")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown model 'mpl' (did you mean 'mlp'?)
           list them: chainrule models ls
    """
    folder = _folders().get(name)
    if folder is None:
        raise ArgumentError(
            f"unknown model {name!r}{suggest(name, names())}", remedy="list them: chainrule models ls"
        )
    module = importlib.import_module(f"{__name__}.{folder.parent.name}.{folder.name}")
    found: Entry = module.entry
    return found


def card(name: str) -> str:
    """The model card, Markdown."""
    entry(name)
    return (_folders()[name] / "card.md").read_text(encoding="utf-8")


def family(name: str) -> str:
    """The family (folder) a model belongs to.

    >>> family("mlp")
    'supervised'
    """
    entry(name)
    return _folders()[name].parent.name


def configure(name: str, **settings: Any) -> Config:
    """The validated settings of a model.

    >>> configure("mlp", depht=2)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown setting 'depht' (did you mean 'depth'?)
           settings of mlp: chainrule models show mlp
    """
    return configured(entry(name), settings, f"settings of {name}: chainrule models show {name}")


def configured(found: Entry, settings: Mapping[str, Any], remedy: str) -> Config:
    """The validated settings of the model of an entry; `remedy` says where they are listed."""
    try:
        return found.config(**settings)
    except pydantic.ValidationError as error:
        raise explain(error, found.config, remedy, former=found.former_settings) from None


def build(name: str, data: Data | Schema, *, seed: int = 0, **config: Any) -> Model:
    """A freshly initialised model sized for the data; settings that are not given suit their shape and number.

    >>> import chainrule as cr
    >>> model = build("mlp", cr.data.load("moons"), width=16, depth=2)
    """
    found = entry(name)
    schema = data.schema if isinstance(data, Data) else data
    fits(found, schema)
    chosen = configure(name, **config)
    if found.suited is not None:
        examples = len(data.train) if isinstance(data, Data) else None
        config = {**found.suited(chosen, schema, examples), **config}
        chosen = configure(name, **config)
    if found.measured is not None and isinstance(data, Data):
        chosen = configure(name, **{**found.measured(chosen, data), **config})
    make = functools.partial(found.build, chosen, schema, random.key(seed, "init"))
    if found.holds:
        body, whole = starting.held(build, chosen, data, seed)
        chosen = chosen.model_copy(update={"body": whole})
        make = functools.partial(found.build, chosen, schema, random.key(seed, "init"), body)
    sizing.check_size(name, make, chosen, schema)
    model = make()
    if schema.packed and not isinstance(model, protocol.CanPack):
        raise CapabilityError(
            f"{name} reads a window as one text, not document by document", remedy="leave data.packing out"
        )
    return found.started(model, data) if found.started is not None and isinstance(data, Data) else model


def fits(found: Entry, schema: Schema) -> None:
    """Raise unless the model can be trained on data of this schema."""
    if not fitting.suits(found, schema):
        others = [name for name in names() if fitting.suits(entry(name), schema)]
        raise fitting.refusal(found, schema, others)


def entry_of(model: Model) -> Entry | None:
    """The registry entry a model was built from; `None` for a class of the user's own."""
    config = getattr(model, "config", None)
    parts = type(config).__module__.split(".")
    # Both: a class of the user's own may borrow the settings of a registered model.
    ours = all(type(one).__module__.startswith(f"{__name__}.") for one in (model, config))
    if not isinstance(config, Config) or not ours:
        return None
    return entry(parts[3].replace("_", "-"))


def title(model: Model) -> str:
    """What a model is called: its name in the registry, or that of the user's own class."""
    found = entry_of(model)
    if found is not None:
        return found.name
    return type(model.module if isinstance(model, Wrapped) else model).__name__


def import_weights(
    model: Model,
    path: str | Path,
    *,
    names: Names | None = None,
    strict: bool = True,
    fresh: Sequence[str] = (),
) -> Imported:
    """The model with the weights of a safetensors file.

    `names` says what the file calls each layer, `{"head": "fc"}`; many registered models know the names PyTorch's
    libraries use. With `strict` anything missing, misshapen or unused is an error; without, it is listed and the rest
    is taken. Layers that `fresh` names by pattern keep their own weights, e.g. the head for other classes.
    """
    if names is None:
        tables = [_torch_names(model), *(table(model) for table in _known(model).layouts.values())]
        names = (
            interchange.closest(model, tables, weight_files.shapes(path)) if len(tables) > 1 else tables[0]
        )
    return interchange.read(model, path, names, strict=strict, fresh=fresh)


def with_weights(
    name: str,
    path: str | Path,
    data: Data | Schema,
    *,
    head: str = "kept",
    seed: int = 0,
    strict: bool = True,
    **settings: Any,
) -> Imported:
    """A model for the data with the published weights in a safetensors file or folder, sized by what is in it.

    The settings are those of the network in the file, with the pixels it expects (`settings` override them): see
    `published_settings`, and `read_published` for where each comes from.
    `head="new"` begins the layer of the outputs afresh: the usual start on classes of one's own. Without `strict`
    arrays that do not fit are listed and the rest is taken.
    """
    check_choice("with_weights", "head", head, ("kept", "new"))
    found, file = entry(name), weight_files.found(path)
    make = functools.partial(build, name, data, seed=seed, **published_settings(name, file, **settings))
    weight_checks.check_held(file, weight_files.shapes(file), eqx.filter_eval_shape(make))
    model = make()
    if head == "new":
        return import_weights(model, file, fresh=[found.head], strict=strict)
    try:
        return import_weights(model, file, strict=strict)
    except ArgumentError as error:
        count = protocol.output_count(model.schema)  # type: ignore[attr-defined]  # registered models have one
        remedy = (
            f"if only the last layer differs, begin it afresh with {count} outputs for your data: head=new"
        )
        raise ArgumentError(error.message, remedy=remedy) from None


def published_settings(name: str, path: str | Path, **settings: Any) -> dict[str, Any]:
    """The settings of the model whose weights a file or folder holds, and those that are given."""
    return dict(read_published(name, path, **settings).settings)


def read_published(name: str, path: str | Path, **settings: Any) -> PublishedSettings:
    """The settings of the model whose weights a file or folder holds, and where they come from.

    A file of ours says them itself; otherwise `config.json` beside it, where the model reads one, the shapes of the
    arrays, and `settings`. What none of these says is assumed as published networks have it, or an error.
    """
    found, file = entry(name), weight_files.found(path)
    said = exported.read_head(file)
    if said is not None and said.model == name:
        if said.layout == "chainrule":
            raise ArgumentError(
                f"{file.name} has the names of this package, not those of PyTorch's libraries",
                remedy=f"open it with reopen, or export it with layout=torch; a run begins another one with\n"
                f"chainrule train from=RUN data=... fresh={shell_word(found.head)}",
            )
        return PublishedSettings({**said.settings, **settings}, {}, {})
    return published.read(found, file, settings)


def open_weights(
    name: str,
    path: str | Path,
    tokenizer: Tokenizer | str | Path | None = None,
    *,
    strict: bool = True,
    **settings: Any,
) -> Model:
    """The model of text in a file of weights or in a folder of Hugging Face's transformers, sized by what is in it.

    Of a folder everything is read: `config.json`, the tokenizer, weights in one file or several. `tokenizer` is the one
    the weights were trained with, or its file or folder (default: the one beside the weights), whose rules for cutting
    and padding texts are left to the model. `settings` say what files do not, such as `heads` where there is no
    `config.json`; where two of them say different things, it is an error. Without `strict` arrays that do not fit are
    left out, and begin afresh. `opened_weights` also tells what was taken, said and assumed.
    """
    return opened_weights(name, path, tokenizer, strict=strict, **settings).model


def opened_weights(
    name: str,
    path: str | Path,
    tokenizer: Tokenizer | str | Path | None = None,
    *,
    strict: bool = True,
    **settings: Any,
) -> OpenedWeights:
    """The model that `open_weights` gives, what was taken of its file, what `config.json` says and what is assumed."""
    found = entry(name)
    try:
        return opening.opened(found, path, tokenizer, strict=strict, settings=settings)
    except pydantic.ValidationError as error:
        raise explain(error, found.config, f"this is what {Path(path).name} or the settings say") from None


def begin(
    name: str, source: Model, data: Data | Schema, *, seed: int = 0, fresh: Sequence[str] = (), **config: Any
) -> Model:
    """A model for other data that begins with what a trained one has learnt.

    A model of the same name takes over settings and arrays but those that `fresh` names, and the head where classes are
    others; one that has a `body`, such as `reader`, takes the trained model for it. What does not fit is an error.

    >>> import chainrule as cr
    >>> moons = cr.data.load("moons")
    >>> model = begin("mlp", build("mlp", moons, width=8, seed=1), moons, fresh=["head"])
    >>> model.config.width
    8
    """
    model = build(name, data, seed=seed, **starting.over(inherited(name, source), config))
    found = entry(name)
    of = found.body_of
    as_body = of is not None or _known(source).name != name
    head = "" if as_body else starting.replaced_head(found, source, model.schema)  # type: ignore[attr-defined]
    fresh = [*fresh, head] if head else fresh
    begun = starting.copied(model, source if of is None else of(source), as_body=as_body, fresh=fresh)
    if found.holds and found.started is not None and isinstance(data, Data):
        return found.started(begun, data)
    return begun


def inherited(name: str, source: Model) -> dict[str, Any]:
    """The settings with which a model has room for the arrays of a trained one, to `begin` with them."""
    return starting.inherited(entry(name), source, _known(source).name)


def _known(model: Model) -> Entry:
    found = entry_of(model)
    if found is None:
        raise CapabilityError(f"{type(model).__name__} is no registered model: nothing knows its settings")
    return found


def export_weights(
    model: Model,
    path: str | Path,
    *,
    names: Names | None = None,
    layout: str = "torch",
    data: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """Write the weights to a safetensors file; the path of the file.

    `layout="torch"` lays them out and names them as PyTorch's libraries do, `layout="chainrule"` as they are here;
    some models know the names of a further library, such as `layout="timm"`. A model of the registry can be had again
    with `reopen`; `data` are the arguments of `data.load` to remember for it.
    """
    found = entry_of(model)
    others = {} if found is None else found.layouts
    check_choice("export_weights", "layout", layout, ("torch", "chainrule", *others))
    settings = {} if found is None else model.config.model_dump(mode="json")  # type: ignore[attr-defined]
    head = {} if found is None or names else exported.head(found.name, layout, settings, data)
    if layout == "chainrule":
        return interchange.write(model, path, None, head)
    if names is None:
        names = others[layout](model) if layout in others else _torch_names(model)
    return interchange.write(model, path, names, head)


def export_folder(model: Model, path: str | Path, *, data: Mapping[str, Any] = MappingProxyType({})) -> Path:
    """Write a folder that Hugging Face's transformers opens, with `config.json` and tokenizer; its file of weights.

    `AutoModelForCausalLM.from_pretrained(path)` computes what the model does, and `open_weights` reads it again. `data`
    are the arguments of `data.load` to remember.
    """
    return folders.write(_known(model), model, path, dict(data))


def reopen(path: str | Path, data: Data | Schema, **settings: Any) -> Model:
    """The model in a file that `export_weights` wrote, for data like those it was trained on."""
    said = exported.read_head(path)
    if said is None:
        raise ArgumentError(f"{path} was not written by chainrule export", remedy="use import_weights")
    model = build(said.model, data, **{**said.settings, **settings})
    return (
        exported.with_arrays(model, path) if said.layout == "chainrule" else import_weights(model, path).model
    )


def _torch_names(model: Model) -> Names:
    found = entry_of(model)
    known = None if found is None else found.torch_names
    return own_names(model, interchange.LAYERS) if known is None else known(model)


__all__ = [
    "Imported",
    "OpenedWeights",
    "PublishedSettings",
    "base",
    "begin",
    "build",
    "card",
    "configure",
    "configured",
    "entry",
    "entry_of",
    "explain",
    "export_folder",
    "export_onnx",
    "export_weights",
    "family",
    "fits",
    "import_weights",
    "inherited",
    "names",
    "open_weights",
    "opened_weights",
    "published_settings",
    "read_published",
    "reopen",
    "setting_names",
    "summary",
    "title",
    "with_weights",
    "wrap",
]
