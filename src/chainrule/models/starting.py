"""Starting from a trained model: its settings, and its arrays by name.

A model of the same name takes over everything; where the vocabulary got further tokens, these begin afresh. A model
that holds another one as its `body` takes over that body and begins the rest of itself afresh. Whatever does not fit is
an error unless it was asked to begin afresh: a layer that silently keeps its random weights looks trained and is not.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CapabilityError, suggest
from chainrule.core.types import Array
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import CanPredict, Config, Entry, HasOwnTraining, Model

M = TypeVar("M", bound=Model)
BODY = "body."


def inherited(entry: Entry, source: Model, known_as: str) -> dict[str, Any]:
    """The settings with which the model of an entry has room for the arrays of a trained one, `known_as` that name."""
    if entry.name == known_as and entry.body_of is None:
        return dict(source.config.model_dump())  # type: ignore[attr-defined]  # every registered model has them
    if entry.adopts is None:
        raise CapabilityError(
            f"{entry.name} cannot begin with a {known_as}: it has no place for its layers",
            remedy=f"train a {known_as}, or a model that reads with the layers of another: reader",
        )
    return dict(entry.adopts(source, known_as))


def replaced_head(entry: Entry, source: Model, schema: Schema) -> str:
    """The layer of the outputs where it has to begin afresh, because outputs mean something else; empty otherwise.

    Outputs of a model that predicts mean the same where kind of target, shape and names of classes are the same.
    """
    before = source.schema  # type: ignore[attr-defined]  # every registered model has one
    if (
        not isinstance(source, CanPredict)
        or isinstance(source, HasOwnTraining)
        or entry.holds
        or entry.adopts
    ):
        return ""
    same = [(one.target, one.classes, one.target_shape) for one in (before, schema)]
    names = tree.names(eqx.filter(source, eqx.is_array))
    there = any(tree.matches(name, entry.head) for name in names)
    return entry.head if same[0] != same[1] and there else ""


def held(
    build: Callable[..., Model], config: Config, data: Data | Schema, seed: int
) -> tuple[Model, dict[str, Any]]:
    """The model that settings say another one holds, fresh from `models.build`, and its name with all its settings."""
    settings = dict(config.body)  # type: ignore[attr-defined]  # entries that hold a model have it
    name = settings.pop("name")
    model = build(name, data, seed=seed, **settings)
    return model, {"name": name, **model.config.model_dump()}  # type: ignore[attr-defined]  # every registered model


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others on top; groups are joined.

    >>> over({"body": {"layers": 2, "heads": 2}}, {"body": {"heads": 4}})
    {'body': {'layers': 2, 'heads': 4}}
    """
    joined = {
        name: {**below[name], **value}
        if isinstance(value, Mapping) and isinstance(below.get(name), Mapping)
        else value
        for name, value in above.items()
    }
    return {**below, **joined}


def copied(model: M, source: Model, *, as_body: bool, fresh: Sequence[str] = ()) -> M:
    """The model with the arrays of another, all of them but those that `fresh` names; `as_body`, in its body alone."""
    theirs = dict(tree.named_leaves(eqx.filter(source, eqx.is_array)))
    arrays, rest = eqx.partition(model, eqx.is_array)
    named = tree.named_leaves(arrays)
    for pattern in fresh:
        if not any(tree.matches(name, pattern) for name, _ in named):
            tops = list(dict.fromkeys(name.split(".")[0] for name, _ in named))
            raise ArgumentError(
                f"fresh={pattern}: no parameter has such a name{suggest(pattern, tops)}",
                remedy=f"layers of this model: {', '.join(tops)}",
            )
    vocabularies = _grown(source, model)
    leaves, wrong = [], []
    for name, ours in named:
        own = as_body and not name.startswith(BODY)
        if own or any(tree.matches(name, pattern) for pattern in fresh):
            leaves.append(ours)
            continue
        found = theirs.get(name.removeprefix(BODY) if as_body else name)
        if found is not None and found.ndim == ours.ndim and found.shape != ours.shape:
            found = _with_rows(found, ours, vocabularies)
        if found is None or found.shape != ours.shape:
            was = "is not there" if found is None else f"is {found.shape}"
            wrong.append(f"{name} is {ours.shape} here and {was} in the other")
            continue
        leaves.append(jnp.asarray(found, ours.dtype))
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ArgumentError(
            f"{len(wrong)} arrays do not fit: {'; '.join(wrong[:3])}{more}",
            remedy="to begin these layers afresh, name them: fresh=LAYER,...",
        )
    full: M = eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), leaves), rest)
    return full


def _grown(source: Model, model: Model) -> list[tuple[int, int]]:
    """The sizes of vocabularies before and after, of those that only got further tokens at their end."""
    before, after = source.schema, model.schema  # type: ignore[attr-defined]  # every registered model has one
    both = (before.tokens, after.tokens), (before.target_tokens, after.target_tokens)
    return [(len(old), len(new)) for old, new in both if len(old) < len(new) and new[: len(old)] == old]


def _with_rows(found: Array, ours: Array, vocabularies: Sequence[tuple[int, int]]) -> Array:
    """An array with a row, or another entry, for each token: those of new tokens are fresh.

    Marks that stand behind the vocabulary, such as that of a hidden token, stay behind it.
    """
    for axis, (old, new) in itertools.product(range(ours.ndim), vocabularies):
        elsewhere = [found.shape[i] == ours.shape[i] for i in range(ours.ndim) if i != axis]
        marks = found.shape[axis] - old
        if all(elsewhere) and 0 <= marks == ours.shape[axis] - new:
            first, last = jnp.split(jnp.asarray(found, ours.dtype), [old], axis)
            fresh = jax.lax.slice_in_dim(ours, old, new, axis=axis)
            return jnp.concatenate([first, fresh, last], axis)
    return found


__all__ = ["copied", "held", "inherited", "over", "replaced_head"]
