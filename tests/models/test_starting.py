"""Beginning with a trained model whose vocabulary got further tokens: its rows stay, those of new tokens are fresh."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np
import pytest

from chainrule import models
from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.data.schema import Schema

OLD = Schema("text", (5,), tokens=("a", "b", "c"))
NEW = replace(OLD, tokens=("a", "b", "c", "<user>", "<end>"))
SMALL: dict[str, dict[str, Any]] = {
    "gpt": {"layers": 1, "heads": 1, "width": 4, "tie": False},
    "char-rnn": {"width": 4},
    "bert": {"layers": 1, "heads": 1, "width": 4},
}


def arrays(model: models.Model) -> dict[str, np.ndarray]:
    return {name: np.asarray(leaf) for name, leaf in tree.named_leaves(eqx.filter(model, eqx.is_array))}


@pytest.mark.parametrize("name", SMALL)
def test_rows_of_known_tokens_are_those_that_were_trained(name: str) -> None:
    source = models.build(name, OLD, seed=1, **SMALL[name])
    before, after = arrays(source), arrays(models.begin(name, source, NEW))
    grown = 0
    for key, old in before.items():
        if old.shape == after[key].shape:
            np.testing.assert_array_equal(old, after[key])
            continue
        axis = next(i for i in range(old.ndim) if old.shape[i] != after[key].shape[i])
        assert after[key].shape[axis] == old.shape[axis] + 2
        kept = np.delete(after[key], [3, 4], axis)  # a mark behind the vocabulary stays behind it
        np.testing.assert_array_equal(old, kept)
        grown += 1
    assert grown


def test_another_vocabulary_is_refused_as_before() -> None:
    source = models.build("gpt", OLD, **SMALL["gpt"])
    other = replace(OLD, tokens=("x", "a", "b", "c"))
    with pytest.raises(ArgumentError, match="arrays do not fit"):
        models.begin("gpt", source, other)
