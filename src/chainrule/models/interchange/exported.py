"""Files of weights that this package has written: what stands in their head, so that they can be read again.

The arrays alone do not say how many heads share a width or what the data were like. The head of a safetensors file has
room for text: the name of the model, its settings and the options of its data are written there as JSON, and read
like any settings, by their schema.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors

from chainrule.core import tree
from chainrule.core.errors import DataError
from chainrule.core.quoting import shell_word
from chainrule.models.protocol import Model
from chainrule.models.protocol.weight_checks import check_values

M = TypeVar("M", bound=Model)
_KEY = "chainrule"
ADAPTERS = "lora"
"""The layout of a file that holds low-rank adapters alone, whose settings are those of the adapters."""


class Exported(NamedTuple):
    """What a file says about itself."""

    model: str
    """Name in the registry."""
    layout: str
    """Whose names and shapes the arrays have."""
    settings: dict[str, Any]
    data: dict[str, Any]
    """Arguments of `data.load`, as far as they mean the same on another machine."""


def head(model: str, layout: str, settings: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, str]:
    """The text for the head of a file."""
    elsewhere = {name: value for name, value in data.items() if not _is_path(value)}
    said = Exported(model, layout, dict(settings), elsewhere)
    return {_KEY: json.dumps(said._asdict())}


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and ("/" in value or Path(value).exists())


def read_head(path: str | Path) -> Exported | None:
    """What a file of weights says about itself; nothing for one that another program has written."""
    said = read_any_head(path)
    if said is not None and said.layout == ADAPTERS:
        raise DataError(
            f"{Path(path).name} holds low-rank adapters, which are no model by themselves",
            remedy=f"use the run they were trained beside: chainrule sample RUN {shell_word(f'lora={path}')}",
        )
    return said


def read_any_head(path: str | Path) -> Exported | None:
    """The same of a file of weights or of adapters."""
    try:
        with safetensors.safe_open(Path(path), framework="numpy") as file:
            text = (file.metadata() or {}).get(_KEY)
    except (OSError, safetensors.SafetensorError):  # said better by whoever reads its arrays
        return None
    if text is None:
        return None
    try:
        said = Exported(**json.loads(text))
        kinds = {"model": str, "layout": str, "settings": dict, "data": dict}
        if not all(isinstance(getattr(said, name), kind) for name, kind in kinds.items()):
            raise TypeError("a field has the wrong type")
    except (ValueError, TypeError, RecursionError):
        raise DataError(
            f"{Path(path).name}: what its head says about the model cannot be read",
            remedy="export the run again",
        ) from None
    return said


def with_arrays(model: M, path: str | Path) -> M:
    """The model with the arrays of a file under the names they have here; all of them, of the same shapes and types."""
    wanted = dict(tree.named_leaves(eqx.filter(model, eqx.is_array)))
    with safetensors.safe_open(Path(path), framework="flax") as file:
        stored = {name: np.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    if odd := sorted(stored.keys() ^ wanted.keys()):
        who = "the file has" if odd[0] in stored else "the model has"
        raise _misfit(
            path, f"only {who} {odd[0]}" if len(odd) == 1 else f"only {who} {odd[0]}, and more differ"
        )
    for name, ours in wanted.items():
        if stored[name].shape != ours.shape or stored[name].dtype != ours.dtype:
            found, own = (f"{a.dtype}{list(a.shape)}" for a in (stored[name], ours))
            raise _misfit(path, f"{name} is {found}, the model has {own}")
        if jnp.issubdtype(ours.dtype, jnp.floating) and bool(jnp.isfinite(ours).all()):
            check_values(name, stored[name])
    leaves = iter([jnp.asarray(stored[name]) for name in wanted])
    arrays, rest = eqx.partition(model, eqx.is_array)
    whole: M = eqx.combine(jax.tree.map(lambda _: next(leaves), arrays), rest)
    return whole


def _misfit(path: str | Path, why: str) -> DataError:
    return DataError(
        f"{Path(path).name} does not fit: {why}",
        remedy="name data like those it was trained on: data=NAME or PATH, with the same options",
    )


__all__ = ["ADAPTERS", "Exported", "head", "read_any_head", "read_head", "with_arrays"]
