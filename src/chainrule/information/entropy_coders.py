"""Sequences of symbols as words of 32 bits by their probabilities, and back.

"ans" is a stack and "range" a queue, both of the package constriction; "huffman" gives every symbol a codeword of whole
bits, and "reference" is a stack that can be read (`reference_coders`). A symbol costs `-log2 p` bits but for rounding;
with Huffman up to one bit more.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, DataError, check_choice
from chainrule.information import tables
from chainrule.information.compression.coders import AnsStack, RangeReader, RangeWriter, constriction
from chainrule.information.reference_coders import NumeralStack, cumulative_parts, huffman_codewords


@final
class _EntropyCoderPair(NamedTuple):
    """How symbols become words by a table of probabilities, a row for each, and how they come back."""

    encode: Callable[[np.ndarray, np.ndarray], np.ndarray]
    decode: Callable[[np.ndarray, np.ndarray], np.ndarray]


def entropy_encode(symbols: Any, probabilities: Any, coder: str = "ans") -> np.ndarray:
    """Symbols, whole numbers from 0 on, as 32-bit words.

    `probabilities` are one row for all symbols, or a row for each.

    >>> words = entropy_encode([2, 0, 1, 1, 0], [0.5, 0.25, 0.25], coder="reference")
    >>> words.dtype, entropy_decode(words, 5, [0.5, 0.25, 0.25], coder="reference").tolist()
    (dtype('uint32'), [2, 0, 1, 1, 0])
    """
    check_choice("entropy_encode", "coder", coder, _CODERS)
    chosen = np.asarray(symbols)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise ArgumentError(
            f"entropy_encode(symbols): needs whole numbers in a row, not shape {chosen.shape}"
        )
    table = _table("entropy_encode", probabilities, len(chosen))
    if chosen.size and not (chosen.min() >= 0 and chosen.max() < table.shape[1]):
        raise ArgumentError(
            f"entropy_encode(symbols): {chosen.min()} to {chosen.max()}; there are probabilities for 0 to "
            f"{table.shape[1] - 1}"
        )
    if table.shape[1] == 1:
        return np.zeros(0, np.uint32)  # one symbol alone says nothing
    return _CODERS[coder].encode(chosen.astype(np.int32), table)


def entropy_decode(words: Any, count: int, probabilities: Any, coder: str = "ans") -> np.ndarray:
    """The `count` symbols that `entropy_encode` was given, by the same probabilities and coder."""
    check_choice("entropy_decode", "coder", coder, _CODERS)
    table = _table("entropy_decode", probabilities, whole("entropy_decode", "count", count, least=0))
    given = np.asarray(words)
    if given.ndim != 1 or (
        given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= 2**32)
    ):
        raise ArgumentError(
            "entropy_decode(words): needs words of 32 bits in a row, as entropy_encode gives them"
        )
    if table.shape[1] == 1:
        return np.zeros(len(table), np.int64)
    return _CODERS[coder].decode(given.astype(np.uint32), table).astype(np.int64)


def _table(where: str, given: Any, count: int) -> np.ndarray:
    if np.ndim(given) == 1:
        row = tables.table(where, "probabilities", given, 1)
        return np.broadcast_to(row, (count, len(row)))
    found = tables.rows(where, "probabilities", given)
    if len(found) != count:
        raise ArgumentError(f"{where}(probabilities): {len(found)} rows for {count} symbols")
    return found


def _shares(table: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(table, np.float32)


def _model() -> Any:
    return constriction().stream.model.Categorical(lazy=True, perfect=False)


def _ans(symbols: np.ndarray, table: np.ndarray) -> np.ndarray:
    stack = AnsStack(np.zeros(0, np.uint32), seal=False)
    if len(symbols):
        stack.put(symbols, _model(), _shares(table))
    return stack.words()


def _ans_back(words: np.ndarray, table: np.ndarray) -> np.ndarray:
    return AnsStack(words, seal=False).take(_model(), _shares(table)) if len(table) else np.zeros(0)


def _range(symbols: np.ndarray, table: np.ndarray) -> np.ndarray:
    writer = RangeWriter()
    if len(symbols):
        writer.put(symbols, _model(), _shares(table))
    return writer.words()


def _range_back(words: np.ndarray, table: np.ndarray) -> np.ndarray:
    return RangeReader(words).take(_model(), _shares(table)) if len(table) else np.zeros(0)


def _reference(symbols: np.ndarray, table: np.ndarray) -> np.ndarray:
    stack = NumeralStack()
    for symbol, row in zip(symbols[::-1], table[::-1], strict=True):  # last in, first out
        ends = cumulative_parts(row)
        stack.push(int(ends[symbol]), int(ends[symbol + 1] - ends[symbol]))
    return np.array(stack.words(), np.uint32)


def _reference_back(words: np.ndarray, table: np.ndarray) -> np.ndarray:
    stack = NumeralStack(words.tolist())
    return np.array([stack.pop(cumulative_parts(row)) for row in table], np.int64)


def _huffman(symbols: np.ndarray, table: np.ndarray) -> np.ndarray:
    codewords = _one_code(table)
    bits = "".join(codewords[symbol] for symbol in symbols)
    padded = bits + "0" * (-len(bits) % 32)
    return np.array([int(padded[i : i + 32], 2) for i in range(0, len(padded), 32)], np.uint32)


def _huffman_back(words: np.ndarray, table: np.ndarray) -> np.ndarray:
    if not len(table):
        return np.zeros(0)
    by_codeword = {word: symbol for symbol, word in enumerate(_one_code(table))}
    found: list[int] = []
    bits, begun = "".join(f"{word:032b}" for word in words.tolist()), ""
    for bit in bits:
        begun += bit
        if begun in by_codeword and len(found) < len(table):
            found.append(by_codeword[begun])
            begun = ""
    if len(found) < len(table):
        raise DataError(f"entropy_decode(words): end after {len(found)} of {len(table)} symbols")
    return np.array(found)


def _one_code(table: np.ndarray) -> list[str]:
    if len(table) and not (table == table[0]).all():
        raise ArgumentError(
            "entropy_encode(coder='huffman'): probabilities change from symbol to symbol",
            remedy="give one row of probabilities, or use coder='ans'",
        )
    return huffman_codewords(table[0]) if len(table) else []


_CODERS = {
    "ans": _EntropyCoderPair(_ans, _ans_back),
    "range": _EntropyCoderPair(_range, _range_back),
    "huffman": _EntropyCoderPair(_huffman, _huffman_back),
    "reference": _EntropyCoderPair(_reference, _reference_back),
}

__all__ = ["entropy_decode", "entropy_encode"]
