"""Entropy coders on one suite: everything comes back, and costs what probabilities say."""

import sys

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.information import entropy_decode, entropy_encode
from chainrule.information.reference_coders import NumeralStack, cumulative_parts, huffman_codewords

pytest.importorskip("constriction", reason="`pip install 'chainrule[compress]'` brings the fast coders")

CODERS = ("ans", "range", "huffman", "reference")
DYADIC = np.array([0.5, 0.25, 0.125, 0.125])


@pytest.mark.parametrize("coder", CODERS)
@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_symbols_come_back_at_the_cost_of_their_probabilities(coder: str, count: int) -> None:
    symbols = np.random.default_rng(count).choice(4, size=count, p=DYADIC)
    words = entropy_encode(symbols, DYADIC, coder=coder)
    assert words.dtype == np.uint32
    np.testing.assert_array_equal(entropy_decode(words, count, DYADIC, coder=coder), symbols)
    bits = -np.log2(DYADIC[symbols]).sum()
    assert bits - 32 < 32 * len(words) <= bits + 64


@pytest.mark.parametrize("coder", ["ans", "range", "reference"])
def test_every_symbol_may_have_probabilities_of_its_own_and_none_is_impossible(coder: str) -> None:
    draw = np.random.default_rng(0)
    table = draw.dirichlet(np.full(5, 0.2), size=300)
    symbols = np.array([draw.choice(5, p=row) for row in table])
    table[7] = np.eye(5)[
        (symbols[7] + 1) % 5
    ]  # what the model thinks impossible costs 24 bits, and comes back
    words = entropy_encode(symbols, table, coder=coder)
    np.testing.assert_array_equal(entropy_decode(words, 300, table, coder=coder), symbols)
    shares = np.maximum(table[np.arange(300), symbols], 2.0**-24)
    assert 32 * len(words) == pytest.approx(-np.log2(shares).sum(), abs=70)


def test_a_stack_gives_back_what_went_on_last_and_symbols_that_nobody_put_there() -> None:
    stack, ends = NumeralStack([1, 2, 3, 4, 5]), cumulative_parts(DYADIC)
    taken = [stack.pop(ends) for _ in range(12)]
    for symbol in reversed(taken):
        stack.push(int(ends[symbol]), int(ends[symbol + 1] - ends[symbol]))
    assert stack.words() == [1, 2, 3, 4, 5]


def test_codewords_are_as_long_as_dyadic_probabilities_want_and_none_begins_another() -> None:
    words = huffman_codewords(DYADIC)
    assert [len(word) for word in words] == [1, 2, 3, 3]
    draw = np.random.default_rng(0)
    for _ in range(5):
        distribution = draw.dirichlet(np.ones(9))
        words = huffman_codewords(distribution)
        lengths = np.array([len(word) for word in words])
        assert sum(2.0**-lengths) == 1
        entropy = -(distribution * np.log2(distribution)).sum()
        assert entropy <= distribution @ lengths < entropy + 1


def test_messages_are_as_long_as_those_of_another_library() -> None:
    import constriction

    distribution = np.random.default_rng(1).dirichlet(np.ones(6))
    symbols = np.random.default_rng(2).choice(6, 500, p=distribution)
    encoder, tree = (
        constriction.symbol.QueueEncoder(),
        constriction.symbol.huffman.EncoderHuffmanTree(distribution),
    )
    for symbol in symbols:
        encoder.encode_symbol(int(symbol), tree)
    _, bits = encoder.get_compressed()
    codewords = huffman_codewords(distribution)
    assert sum(len(codewords[symbol]) for symbol in symbols) == bits


@pytest.mark.parametrize(
    ("symbols", "distribution", "coder", "message"),
    [
        ([0, 4], DYADIC, "ans", "0 to 4; there are probabilities for 0 to 3"),
        ([0, 1], [0.5, 0.4], "ans", "sums to 0.9, which is 0.1 below 1"),
        ([0, 1], DYADIC, "lz77", 'coder must be "ans", "range", "huffman" or "reference"'),
        ([0.5], DYADIC, "ans", "needs whole numbers"),
        ([0, 1], np.eye(2)[[0, 1]], "huffman", "probabilities change from symbol to symbol"),
        ([0, 1, 1], np.eye(2), "range", "2 rows for 3 symbols"),
    ],
)
def test_what_cannot_be_coded_is_refused(
    symbols: object, distribution: object, coder: str, message: str
) -> None:
    with pytest.raises(ArgumentError) as found:
        entropy_encode(symbols, distribution, coder=coder)
    assert message in str(found.value)


def test_codewords_that_end_too_early_and_counts_that_cannot_be_are_refused() -> None:
    words = entropy_encode([3] * 40, DYADIC, coder="huffman")
    with pytest.raises(DataError, match="end after 21 of 40 symbols"):
        entropy_decode(words[:2], 40, DYADIC, coder="huffman")
    with pytest.raises(ArgumentError, match="count must be a whole number of at least 0"):
        entropy_decode(words, -1, DYADIC)
    for wrong in ([-1], [2**32], [0.5], [[1]]):
        with pytest.raises(ArgumentError, match="needs words of 32 bits in a row"):
            entropy_decode(wrong, 1, DYADIC)


@pytest.mark.parametrize("coder", CODERS)
def test_one_symbol_alone_costs_nothing(coder: str) -> None:
    words = entropy_encode([0, 0, 0], [1.0], coder=coder)
    assert len(words) == 0
    assert entropy_decode(words, 3, [1.0], coder=coder).tolist() == [0, 0, 0]


def test_without_the_package_the_fast_coders_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "constriction", None)
    with pytest.raises(
        CapabilityError, match=r"needs the package constriction, which is not installed"
    ) as found:
        entropy_encode([0, 1], DYADIC)
    assert "pip install 'chainrule[compress]'" in str(found.value)
    assert len(entropy_encode([0, 1], DYADIC, coder="reference")) <= 1
