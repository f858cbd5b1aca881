"""Scores of texts: every token once, in units that can be compared."""

import math
from pathlib import Path
from typing import final

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data import Batch, load
from chainrule.data.text import tokenizers
from chainrule.data.text.windows import Windows
from chainrule.models.protocol import HasSurprisal, Metrics, Model
from chainrule.train import score
from chainrule.train.scores.text import units
from chainrule.train.surprisal import blocks, window_spans


@final
class Counting(HasSurprisal):
    """Finds every token as surprising as its number of predecessors within the window."""

    weight: Array

    def surprisal(
        self, x: Int[Array, "batch tokens"], key: Key | None = None
    ) -> Float[Array, "batch predicted"]:
        shape = (len(x), x.shape[1] - 1)
        return jnp.broadcast_to(1.0 + jnp.arange(shape[1])[None, :], shape) * self.weight

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return self.surprisal(batch.x).mean(), {}

    def log_prob(self, x: Int[Array, "batch tokens"]) -> Float[Array, " batch"]:
        return -self.surprisal(x).sum(axis=1)


@final
class Plain(Model):
    """Nothing but a loss."""

    weight: Array

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return self.weight, {}


def test_units_of_a_uniform_choice_and_of_a_known_loss() -> None:
    uniform = units(math.log(65), characters_per_token=1)
    assert uniform["nats_per_token"].value == pytest.approx(4.17439, abs=5e-6)
    assert uniform["bits_per_character"].value == pytest.approx(6.02237, abs=5e-6)
    assert uniform["perplexity"].value == pytest.approx(65)
    known = units(1.88, 0.01, characters_per_token=1, bytes_per_token=2.0)
    assert known["bits_per_character"].value == pytest.approx(2.71227, abs=5e-6)
    assert known["bits_per_byte"].value == pytest.approx(2.71227 / 2, abs=5e-6)
    assert known["perplexity"].value == pytest.approx(6.5535, abs=5e-5)
    assert known["perplexity"].stderr == pytest.approx(0.01 * math.exp(1.88))
    assert known["bits_per_byte"].stderr == pytest.approx(0.01 / math.log(2) / 2)
    assert "bits_per_character" not in units(1.0)


@given(st.integers(2, 200), st.integers(1, 40), st.integers(1, 40))
def test_every_symbol_but_the_first_is_judged_once(tokens: int, length: int, stride: int) -> None:
    if length >= tokens or stride > length:
        return
    starts, counts = window_spans(tokens, length, stride)
    judged = [
        position
        for start, count in zip(starts, counts, strict=True)
        for position in range(start + length - count + 1, start + length + 1)
    ]
    assert judged == list(range(1, tokens))
    assert starts.min() >= 0
    assert starts.max() + length == tokens - 1


def test_a_smaller_stride_judges_with_more_of_the_past() -> None:
    split = Windows({"tokens": np.zeros(41, np.uint8)}, length=8)
    model = Counting(jnp.ones(()))
    apart = blocks(model, split, 65, stride=8)
    assert apart.mean == 4.5
    assert apart.tokens.sum() == 40
    exact = blocks(model, split, 65, stride=1)
    assert exact.mean == (sum(range(1, 9)) + 32 * 8) / 40
    assert blocks(model, split, 65).stride == 4
    with pytest.raises(ArgumentError, match=r"stride=9: .*\n.*from 1 .slow, exact. to 8 .fast."):
        blocks(model, split, 65, stride=9)


def test_the_error_is_that_of_a_mean_over_windows() -> None:
    found = blocks(Counting(jnp.ones(())), Windows({"tokens": np.zeros(41, np.uint8)}, length=8), 65, 8)
    assert found.error == 0, "all windows are alike"
    uneven = found._replace(nats=np.array([36.0, 40.0, 32.0, 36.0, 36.0]))
    assert uneven.error == pytest.approx(np.std([4.5, 5.0, 4.0, 4.5, 4.5]) / math.sqrt(5))


def test_a_text_is_scored_in_all_units_with_its_stride() -> None:
    data = load("shakespeare", window=16)
    found = score(Counting(jnp.ones(())), data, "val", stride=16)
    assert {"loss", "nats_per_token", "bits_per_character", "bits_per_byte", "perplexity"} <= set(found)
    assert "bits_per_dim" not in found
    assert found["stride"].value == 16
    assert found["tokens"].value == len(data.val.arrays["tokens"]) - 1
    assert found["tokens"].unit == "all but the first"
    with pytest.raises(ArgumentError, match="stride=3: only models that predict text"):
        score(Plain(jnp.ones(())), data, "val", stride=3)


def test_bits_of_tokens_of_any_size_are_those_of_the_text_they_stand_for(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("Äpfel und Birnen sind süß, und Nüsse auch. " * 60)
    for tokenizer in ("byte-bpe", "character"):
        data = load(path, tokenizer=tokenizer, vocab=300 if tokenizer == "byte-bpe" else None, window=16)
        found = score(Counting(jnp.ones(())), data, "val", stride=16)
        tokens = data.val.arrays["tokens"]
        total = found["nats_per_token"].value * (len(tokens) - 1) / math.log(2)
        judged = tokenizers.of(data.schema).decode(tokens[1:])
        assert found["bits_per_character"].value == pytest.approx(total / len(judged))
        assert found["bits_per_byte"].value == pytest.approx(total / len(judged.encode()))
        assert found["loss"].unit == "nats/token at stride 16"
