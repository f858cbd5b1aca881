"""What every model of text can do, on toys whose probabilities are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data.base import Batch, Schema
from chainrule.data.texts import passages
from chainrule.models.autoregressive.base import Text
from tests.models.autoregressive.toys import LETTERS, TRACED, chain, placed

KEY = jax.random.key(3)


def by_hand(model: Text, begun: list[int], length: int, context: int) -> list[int]:
    """Greedy symbols, each from a fresh look at the last `context` symbols."""
    tokens = list(begun)
    for _ in range(length):
        logits = model.logits(jnp.array([tokens[-context:]]))[0, -1]
        tokens.append(int(logits.argmax()))
    return tokens


def test_likelihood_loss_and_surprise_are_one_number() -> None:
    model, x = chain(), jnp.array([[0, 1, 2, 3], [4, 4, 1, 0]])
    log_p = jax.nn.log_softmax(model.table, axis=-1)
    expected = -log_p[x[:, :-1], x[:, 1:]]
    assert np.allclose(model.surprise(x), expected, atol=1e-12)
    assert np.allclose(model.log_prob(x), -expected.sum(axis=1), atol=1e-12)
    assert np.isclose(model.loss(Batch(x), KEY)[0], expected.mean(), atol=1e-12)


def test_a_sample_holds_the_prompt_and_as_many_symbols_as_were_asked_for() -> None:
    out = np.asarray(chain().sample(KEY, 3, prompt="ab", length=5))
    assert out.shape == (3, 7)
    assert [text[:2] for text in passages(LETTERS, out)] == ["ab"] * 3
    assert np.asarray(chain().sample(KEY, 2)).shape == (2, *LETTERS.shape)
    assert np.all(np.asarray(chain().sample(KEY, 2))[:, 0] == 0), "without a prompt a text begins a line"


def test_without_a_new_line_in_the_vocabulary_a_text_begins_with_any_symbol() -> None:
    schema = Schema("text", (4,), symbols=("a", "b", "c"))
    first = np.asarray(chain(schema).sample(KEY, 64))[:, 0]
    assert set(first.tolist()) == {0, 1, 2}


@pytest.mark.parametrize("length", [3, 6, 20])
def test_the_compiled_loop_follows_the_receding_horizon(length: int) -> None:
    model = placed(context=6)
    out = np.asarray(model.sample(KEY, 1, prompt="abc", length=length, temperature=0))[0]
    assert out.tolist() == by_hand(model, [1, 2, 3], length, 6)


def test_a_prompt_longer_than_the_context_is_read_from_its_end() -> None:
    model = placed(context=4)
    out = np.asarray(model.sample(KEY, 2, prompt="abcdabcd", length=5, temperature=0))
    assert out[0].tolist() == by_hand(model, [1, 2, 3, 4, 1, 2, 3, 4], 5, 4)


def test_what_does_not_fit_is_refused_where_that_is_asked_for() -> None:
    model = placed(context=4)
    with pytest.raises(ArgumentError, match=r"length=4: 2 symbols and 4 more do not fit into a context of 4"):
        model.sample(KEY, 1, prompt="ab", length=4, overflow="error")
    assert model.sample(KEY, 1, prompt="ab", length=3, overflow="error").shape == (1, 5)
    with pytest.raises(CapabilityError, match="a window cannot slide"):
        model.sample(KEY, 1, prompt="ab", length=9, overflow="window")
    with pytest.raises(ArgumentError, match=r'overflow="corp".*did you mean .crop'):
        model.sample(KEY, 1, overflow="corp")


def test_a_seed_gives_the_same_text_in_any_batch_and_one_by_one() -> None:
    model = placed(context=6)
    many, few = (np.asarray(model.sample(KEY, n, prompt="a", length=12)) for n in (4, 1))
    assert np.array_equal(many[:1], few)
    pieces = list(model.stream(KEY, prompt="a", length=12))
    assert [piece.token for piece in pieces] == few[0, 1:].tolist()
    assert "a" + "".join(piece.text for piece in pieces) == passages(LETTERS, few)[0]
    assert len({tuple(row) for row in many.tolist()}) > 1, "rows differ"


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(
        ArgumentError, match=r"stream: unknown option 'temprature' .did you mean 'temperature'"
    ):
        chain().stream(KEY, temprature=1)
    with pytest.raises(ArgumentError, match="length=0: write at least one symbol"):
        chain().sample(KEY, 1, length=0)


def test_other_numbers_and_weights_compile_nothing() -> None:
    chain().sample(KEY, 2, prompt="a", length=7, temperature=0.5)
    before = len(TRACED)
    chain(seed=1).sample(KEY, 2, prompt="b", length=7, temperature=0.7, top_p=0.5)
    assert len(TRACED) == before
    chain().sample(KEY, 2, prompt="a", length=9)
    assert len(TRACED) > before, "another length is another program"
