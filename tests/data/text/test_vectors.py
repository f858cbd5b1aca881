"""Vectors of words from files, by themselves and as the beginning of a model."""

from pathlib import Path

import numpy as np
import pytest

from chainrule import models
from chainrule.cli.arguments import parse
from chainrule.cli.training_request import parse_request
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.data import load
from chainrule.data.dataset import Data
from chainrule.data.text import tokenizers, vectors
from chainrule.models.vectors import with_vectors
from tests.data import corpus

WORDS = "king 1 1 0.5\nman 1 0 0.5\nwoman 0 1 0.5\nqueen 0 2 0.5\nout of 0.5 -1 0\n"
TEXT = "the King met a woman and the king met a man . the king and the woman met . " * 8


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return corpus.write(tmp_path / "glove.txt", WORDS.encode())


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return load(corpus.write(tmp_path / "tale.txt", TEXT.encode()), tokenizer="word", window=4)


def test_both_forms_of_files_hold_the_same_vectors(tmp_path: Path, file: Path) -> None:
    glove = vectors.read(file)
    counted = vectors.read(corpus.write(tmp_path / "word2vec.txt", b"5 3\n" + WORDS.encode()))
    assert glove.words == counted.words == ("king", "man", "woman", "queen", "out of")
    np.testing.assert_array_equal(glove.rows, counted.rows)
    assert glove.width == 3
    again = vectors.read(glove.write(tmp_path / "again.txt"))
    assert again.words == glove.words
    np.testing.assert_array_equal(again.rows, glove.rows)


def test_neighbours_and_analogies_go_by_the_cosine(file: Path) -> None:
    found = vectors.read(file)
    word, cosine = found.nearest("woman", count=1)[0]
    assert word == "queen"
    assert cosine == pytest.approx(2.25 / np.sqrt(1.25 * 4.25))
    assert [word for word, _ in found.analogy("man", "king", "woman")] == ["queen", "out of"]
    with pytest.raises(ArgumentError, match=r"'quen' has no vector .did you mean 'queen'"):
        found.nearest("quen")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"king 1 2\nman 1\n", "vectors.txt line 2: not a word and 2 numbers"),
        (b"king 1 2\nman 1 nan\n", "line 2"),
        (b"3 2\nking 1 2\n", "holds 1 vectors of 3 that its first line counts"),
        (b"king 1 \xff\n", "not UTF-8 at byte 7"),
        (b"word\n", "line 1: not a word and 0 numbers"),
    ],
)
def test_files_that_hold_something_else_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        vectors.read(corpus.write(tmp_path / "vectors.txt", content))


def test_a_model_begins_with_the_vectors_of_the_words_it_knows(file: Path, data: Data) -> None:
    plain = models.build("window-mlp", data, embedding=3, width=4, depth=1)
    begun = with_vectors(plain, data, file)
    tokenizer, found = tokenizers.of(data.schema), vectors.read(file)
    known = {"king", "King", "woman", "man"}
    for i in range(len(tokenizer)):
        word = tokenizer.decode([i]).strip()
        expected = found.rows[found.row_of[word.lower()]] if word in known else plain.embeddings()[i]
        np.testing.assert_array_equal(begun.model.embeddings()[i], expected)
    words = [tokenizer.decode([i]).strip() for i in range(len(tokenizer))]
    assert begun.tokens == pytest.approx(np.mean([word in known for word in words]))
    text = [words[i] for i in data.train.arrays["tokens"]]
    assert begun.text == pytest.approx(np.mean([word in known for word in text]))
    with pytest.raises(ArgumentError, match=r"(?s)have 3 numbers, those of the model 48.*embedding=3"):
        with_vectors(models.build("window-mlp", data, width=4), data, file)
    with pytest.raises(CapabilityError, match="Ngram has no table of tokens"):
        with_vectors(models.build("ngram", data, order=2), data, file)


def test_the_command_line_takes_the_file_by_name_and_a_recipe_remembers_it(file: Path, data: Data) -> None:
    words = ["char-rnn", f"data={data.source['name_or_path']}", "embedding=3", "width=4", f"vectors={file}"]
    request = parse_request(parse([*words, "data.tokenizer=word", "data.window=4", "freeze=embedding"]))
    model, origin = request.build(data)
    assert origin is not None
    assert origin["vectors"] == str(file)
    assert all(0 < share < 1 for share in origin["coverage"].values())
    assert vectors.read(file).rows[0].tolist() in np.asarray(model.embeddings()).tolist()
    assert request.settled(data)[0].freeze == ("embedding",)
