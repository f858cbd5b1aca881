"""Opening weights that were trained elsewhere: what their files say, what has to be assumed, and the model of both.

Arrays tell the sizes of a network. What they do not tell is taken, in this order, from the caller, from `config.json`
beside them, and from what this package wrote into the head of the file; only then is it assumed, and listed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import Tokenizer, folders
from chainrule.models.interchange import exported, layouts, weight_files
from chainrule.models.interchange.layouts import Imported
from chainrule.models.protocol import Entry, Model, weight_checks
from chainrule.models.protocol.config_files import agree

_CHOICE = frozenset({"context", "dropout", "scan", "recompute", "chunk", "attention", "hide", "pooling"})
"""Settings that are the user's choice whatever the weights are."""


@final
@dataclass(frozen=True)
class OpenedWeights:
    """A model with the weights of a file, and where its settings come from."""

    model: Model
    weights: Imported | None
    """What of the file was taken; nothing is told of files of a format of their own."""
    said: Mapping[str, Any]
    """Settings that `config.json` says."""
    assumed: Mapping[str, Any]
    """Settings that nothing says."""


def opened(
    entry: Entry,
    path: str | Path,
    tokenizer: Tokenizer | str | Path | None = None,
    *,
    strict: bool = True,
    settings: Mapping[str, Any],
) -> OpenedWeights:
    """The model of text in a file or folder of weights, sized by what is in it."""
    if entry.sized is None:
        raise CapabilityError(
            f"{entry.name} cannot be sized by a file of weights", remedy="build it, then use import_weights"
        )
    file = weight_files.found(path)
    if file.suffix in entry.formats:
        for setting in settings:
            raise ArgumentError(f"{setting}: {file.name} says itself what its model is like")
        own = _tokenizer(entry, file, tokenizer)
        return OpenedWeights(entry.formats[file.suffix].weights(file, own), None, {}, {})
    said = _said(entry, file)
    firm = {name: value for name, value in settings.items() if name not in _CHOICE}
    agree(firm, "what you gave", said, "config.json")
    known = _tokenizer(entry, file, tokenizer)
    if tokenizer is None and said.get("tokens", 0) > len(known):
        known = tokenizers.padded(known, said["tokens"])
    stored, chosen = _without_copies(entry, file, said), {**_written(entry, file, said), **settings}
    model = entry.sized(stored, known, said=said, **chosen)
    weight_checks.check_held(file, stored, model)
    assert entry.torch_names is not None, "a model that is sized by a file has names for its arrays"
    if not strict:  # what the file lacks begins as in any fresh model
        model = entry.build(model.config, model.schema, random.key(0, "init"))  # type: ignore[attr-defined]
    taken = layouts.read(model, file, entry.torch_names(model), strict=strict)
    whole = weight_checks.filled(taken.model)
    return OpenedWeights(whole, taken, said, _assumed(entry, whole, {**chosen, **said}))


def _said(entry: Entry, file: Path) -> dict[str, Any]:
    """Settings that `config.json` says."""
    config = weight_files.config(file)
    return {} if config is None or entry.hugging_face is None else dict(entry.hugging_face.settings(config))


def _written(entry: Entry, file: Path, said: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in the head of a file that this package wrote, where `config.json` says nothing of them."""
    head = None if file.suffix != ".safetensors" else exported.read_head(file)
    if head is None or head.model != entry.name:
        return {}
    return {name: value for name, value in head.settings.items() if value is not None and name not in said}


def _without_copies(entry: Entry, file: Path, said: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes in a file, without arrays that only repeat another one: such a model has one for both."""
    stored = weight_files.shapes(file)
    if entry.hugging_face is None or said.get("tie") is False:
        return stored
    copies = {
        copy
        for copy, originals in entry.hugging_face.copies.items()
        for original in originals
        if copy in stored and original in stored and stored[copy] == stored[original]
        if weight_files.repeats(file, copy, original)
    }
    return {name: shape for name, shape in stored.items() if name not in copies}


def _assumed(entry: Entry, model: Model, known: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that matter and that nothing says."""
    if entry.hugging_face is None:
        return {}
    config: Any = model.config  # type: ignore[attr-defined]  # registered models have one
    return {
        name: getattr(config, name)
        for name in entry.hugging_face.untold(model)
        if name not in known and getattr(config, name) is not None
    }


def exported_tokenizer(file: Path) -> Path:
    """Where `chainrule export` puts the tokenizer."""
    return file.with_suffix(".tokenizer.json")


def _tokenizer(entry: Entry, file: Path, given: Tokenizer | str | Path | None) -> Tokenizer:
    """The tokenizer that was given, or the one beside the weights."""
    if isinstance(given, Tokenizer):
        return given
    if given is not None:
        path = Path(given).expanduser()
        if path.is_dir():
            return tokenizers.read_folder(path)
    elif exported_tokenizer(file).is_file():
        path = exported_tokenizer(file)
    elif file.suffix in entry.formats:
        path = file.with_name(f"tokenizer{file.suffix}")
    elif folders.holds(file.parent):
        return tokenizers.read_folder(file.parent)
    else:
        path = file.with_name(folders.WHOLE)
    if given is None and not path.is_file():
        raise DataError(
            f"there is no {path.name} beside {file.name}",
            remedy="name the tokenizer that the weights were trained with: tokenizer=FILE",
        )
    own = entry.formats.get(path.suffix)
    return tokenizers.read(path, any_length=True) if own is None else own.tokenizer(path)


__all__ = ["OpenedWeights", "exported_tokenizer", "opened"]
