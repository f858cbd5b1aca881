"""The randomisation test: an explanation that survives the loss of all weights never showed what was learned.

Weights are shuffled within each array, so that the network keeps their sizes and loses their order, all at once or
layer by layer from the last one down (Adebayo et al., *Sanity checks for saliency maps*, 2018, arXiv:1810.03292).
Running statistics stay as they are.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
import scipy.stats

from chainrule.core.types import Array, Key
from chainrule.explain.methods import taps
from chainrule.models.protocol import Model, parts_of
from chainrule.train.state import trainable

M = TypeVar("M", bound=Model)
ALIKE = 0.5
"""Rank correlation above which a picture is said to have stayed as it was."""


def shuffled(model: M, key: Key) -> M:
    """The model with the entries of every weight array in random order: as large as before, but nothing learned.

    Running statistics stay as they are.
    """
    weights, rest = eqx.partition(model, trainable(model, parts_of(model)))
    leaves, structure = jax.tree.flatten(weights)
    found: M = eqx.combine(jax.tree.unflatten(structure, _mixed(leaves, key)), rest)
    return found


def shuffled_from_the_top(
    model: M, call: Callable[[M], Any], key: Key, most: int | None = None
) -> Iterator[tuple[str, M]]:
    """The last layer shuffled, then the last two, and so on down to the first, each with the name of the newest.

    Layers are modules that hold weights of their own, in the order in which `call(model)` passes them. With `most`, so
    many stages at about equal distances, the last of which has lost everything.
    """
    weights, rest = eqx.partition(model, trainable(model, parts_of(model)))
    pairs, structure = jax.tree_util.tree_flatten_with_path(weights)
    owners = [_owner(path) for path, _ in pairs]
    order = [name for name in dict.fromkeys(taps.names(model, call)) if name in set(owners)]
    mixed = _mixed([leaf for _, leaf in pairs], key)
    stops = range(len(order) - 1, -1, -1)
    if most is not None and most < len(order):
        stops = sorted({round(i) for i in np.linspace(0, len(order) - 1, most)}, reverse=True)  # type: ignore[assignment]
    for stop in stops:
        gone = set(owners) - set(order[:stop])  # weights outside of all modules go with the first stage
        leaves = [
            new if owner in gone else old for (_, old), new, owner in zip(pairs, mixed, owners, strict=True)
        ]
        yield order[stop], eqx.combine(jax.tree.unflatten(structure, leaves), rest)


def rank_correlation(one: Any, other: Any) -> float:
    """Spearman's correlation of two maps; a map that is the same everywhere is like another such map and like no other.

    >>> round(rank_correlation([[1, 2], [3, 4]], [[1, 4], [9, 16]]), 6), rank_correlation([1, 1], [1, 2])
    (1.0, 0.0)
    """
    first, second = np.ravel(one), np.ravel(other)
    flat = [np.ptp(values) == 0 for values in (first, second)]
    if any(flat):
        return float(all(flat))
    return float(scipy.stats.spearmanr(first, second).statistic)


def verdict(
    what: str, alike: Mapping[str, np.ndarray], blank: Mapping[str, int] | None = None, count: int = 0
) -> str:
    """The check with shuffled weights in one sentence, from the rank correlations of every kind of picture.

    `blank` says how many of `count` showed nothing: such a picture is unlike any other, which says less than a
    different one.

    >>> verdict("map", {"edges": np.array([0.9])}).partition("; ")[2]
    'edges hardly changed and cannot be read as what was learned.'
    """
    means = {name: float(values.mean()) for name, values in alike.items()}
    note = {name: f" ({number} of {count} blank)" if number else "" for name, number in (blank or {}).items()}
    listed = ", ".join(f"{name} {mean:.2f}{note.get(name, '')}" for name, mean in means.items())
    same = [name for name, mean in means.items() if mean > ALIKE]
    end = (
        f"{' and '.join(same)} hardly changed and cannot be read as what was learned."
        if same
        else f"every {what} changes with the weights."
    )
    return f"Rank correlation with the {what} of the network with shuffled weights: {listed}; {end}"


def _mixed(leaves: list[Array], key: Key) -> list[Array]:
    keys = jax.random.split(key, len(leaves))
    return [
        jax.random.permutation(k, leaf.ravel()).reshape(leaf.shape)
        for leaf, k in zip(leaves, keys, strict=True)
    ]


def _owner(path: Any) -> str:
    """The module that an array belongs to."""
    parts = [str(getattr(part, "name", getattr(part, "idx", getattr(part, "key", part)))) for part in path]
    return ".".join(parts[:-1])


__all__ = ["ALIKE", "rank_correlation", "shuffled", "shuffled_from_the_top", "verdict"]
