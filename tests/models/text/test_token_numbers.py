"""A number that is that of no token is an error where numbers are known, and never a score where they are not."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.models.text.language_model import LanguageModel

from .toys import LETTERS

GOOD = np.array([[1, 2, 3, 4, 0, 1]])
NAMES = {
    "gpt": {"layers": 1, "heads": 2, "width": 8},
    "char-rnn": {"width": 4, "embedding": 4},
    "window-mlp": {"width": 4, "embedding": 4, "context": 3},
    "ngram": {"order": 3},
    "hmm": {"states": 3},
    "a hashed ngram": {"order": 4, "contexts": 8},
}


def with_number(number: int, at: int) -> jax.Array:
    found = GOOD.copy()
    found[0, at] = number
    return jnp.asarray(found)


@pytest.fixture(scope="module", params=NAMES)
def model(request: pytest.FixtureRequest) -> LanguageModel:
    found: Any = models.build(request.param.split()[-1], LETTERS, **NAMES[request.param])
    return found


@pytest.mark.parametrize("number", [-1, 5])
@pytest.mark.parametrize("at", [2, 5], ids=["read", "predicted"])
def test_no_text_with_a_strange_number_has_a_score(model: LanguageModel, number: int, at: int) -> None:
    x = with_number(number, at)
    with pytest.raises(ArgumentError, match=rf"{number}.* position .*0 to 4"):
        model.surprisal(x)
    nats = np.asarray(_surprisal(model, x))
    assert np.isnan(nats[0, at - 1])
    assert not np.isfinite(np.asarray(_log_prob(model, x))).any()
    assert np.isfinite(np.asarray(_log_prob(model, jnp.asarray(GOOD)))).all()


_surprisal = eqx.filter_jit(lambda model, x: model.surprisal(x))
_log_prob = eqx.filter_jit(lambda model, x: model.log_prob(x))
