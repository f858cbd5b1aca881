"""Folders that Hugging Face's transformers opens: weights under its names, `config.json`, and the tokenizer."""

import json
from pathlib import Path
from typing import Any

from chainrule.core.errors import CapabilityError, DiskError
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import folders as tokenizer_folders
from chainrule.models.interchange import exported, layouts, weight_files
from chainrule.models.protocol import Entry, Model, NameTable
from chainrule.models.protocol.config_files import end_token

LAYOUT = "transformers"


def write(entry: Entry, model: Model, folder: str | Path, data: dict[str, Any]) -> Path:
    """Write the folder of a model; the path of its file of weights. `data` is remembered for reading it again."""
    if entry.hugging_face is None or entry.torch_names is None:
        raise CapabilityError(
            f"{entry.name} is no model that transformers opens from a folder",
            remedy="write layout=torch or layout=chainrule",
        )
    names, config = entry.torch_names(model), dict(entry.hugging_face.config(model))
    assert isinstance(names, NameTable), "files of transformers have a prefix"
    schema, context = model.schema, config.get("n_positions", config.get("max_position_embeddings"))  # type: ignore[attr-defined]
    tokenizer = tokenizers.extended(tokenizers.of(schema), entry.hugging_face.extra(model))
    last = end_token(tokenizer)
    said = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        **({} if tokenizer.start is None else {"bos_token": tokenizer.tokens[tokenizer.start]}),
        **({} if last is None else {"eos_token": tokenizer.tokens[last]}),
    }
    folder = Path(folder).expanduser()
    settings = model.config.model_dump(mode="json")  # type: ignore[attr-defined]
    head = {**exported.head(entry.name, LAYOUT, settings, data), "format": "pt"}
    more = entry.hugging_face.more(model)
    file, prefixed = folder / weight_files.WHOLE, entry.hugging_face.prefixed
    written = layouts.write(model, file, names, head, more=more, prefixed=prefixed)
    try:
        _write_json(folder / weight_files.CONFIG, config)
        _write_json(folder / tokenizer_folders.WHOLE, tokenizer_folders.with_start(tokenizer))
        _write_json(folder / tokenizer_folders.CONFIG, said)
    except OSError as error:
        raise DiskError(
            f"{folder} cannot be written ({error.strerror or error})", remedy="name another folder"
        ) from None
    return written


def _write_json(file: Path, values: dict[str, Any]) -> None:
    file.write_text(json.dumps(values, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


__all__ = ["LAYOUT", "write"]
