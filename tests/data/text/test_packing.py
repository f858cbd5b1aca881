"""Documents that share windows, texts that are read in streams, capitals made small."""

import json
from pathlib import Path

import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.data import Data, Packed, load
from chainrule.data.batches import Batches, predicted
from chainrule.data.text.packing import pack
from chainrule.train import fit
from tests.data import corpus

DOCUMENTS = ["Once upon a time\n", "the end\n", "x\n", "a much longer document than a window holds\n"] * 6


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    rows = "".join(json.dumps({"text": text}) + "\n" for text in DOCUMENTS)
    return corpus.write(tmp_path / "stories.jsonl", rows.encode())


def texts_in(data: Data, split: Packed) -> list[str]:
    """The pieces of documents in the rows of a split."""
    found = []
    for tokens, numbers in zip(split.x, split.batch(np.arange(len(split))).documents, strict=True):
        pieces = (tokens[numbers == number] for number in range(numbers.max() + 1))
        found += ["".join(data.schema.tokens[i] for i in piece) for piece in pieces]
    return found


def test_every_symbol_after_the_first_of_its_document_is_predicted_once() -> None:
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 9, size) for size in rng.integers(1, 40, 60)]
    rows = pack(documents, length=16)
    batch = rows.batch(np.arange(len(rows)))
    chosen = rows.arrays["positions"][:, 1:][predicted(batch.documents)]
    owed = np.concatenate(
        [np.arange(1, len(one)) + start for one, start in zip(documents, rows.starts, strict=True)]
    )
    assert sorted(chosen.tolist()) == owed.tolist()
    assert batch.weight == len(owed)
    assert (batch.x[batch.documents < 0] == 0).all()
    np.testing.assert_array_equal(batch.documents >= 0, rows.arrays["positions"] >= 0)
    assert (np.diff((batch.documents >= 0).astype(int), axis=1) <= 0).all(), "padding stands on the right"


def test_documents_of_a_file_share_windows_and_belong_to_one_split(lines: Path) -> None:
    data, joined = (load(lines, packing=on, window=24, split=(0.5, 0.25, 0.25)) for on in (True, False))
    assert data.schema.packed
    assert joined.schema.to_json().keys().isdisjoint({"packed", "streams"})
    short = [text for text in DOCUMENTS[:12] if len(text) <= 25]
    found = texts_in(data, data.train)
    assert sorted(text for text in found if text in short) == sorted(short)
    cut = [text for text in found if text not in short]
    long = DOCUMENTS[3]
    assert sorted(cut) == sorted([long[:25], long[24:]] * 3), "both hold the token at the cut"
    assert load(**data.source).hash == data.hash != joined.hash


def test_a_folder_and_paragraphs_are_documents_too(tmp_path: Path) -> None:
    folder = tmp_path / "poems"
    for i in range(4):
        corpus.write(folder / f"{i}.txt", f"poem {i}\n\nend".encode())
    data = load(folder, packing=True, window=16)
    assert [len(split.starts) for split in (data.train, data.val, data.test)] == [2, 1, 1]
    text = corpus.write(tmp_path / "speeches.txt", b"ROMEO:\nAy me\n\nJULIET:\nAy you\n \n\nNURSE:\nMadam!\n")
    data = load(text, packing=True, window=16, lower=True)
    pieces = [texts_in(data, split)[0] for split in (data.train, data.val, data.test)]
    assert pieces == ["romeo:\nay me\n\n", "juliet:\nay you\n \n", "nurse:\nmadam!\n"]


def test_packed_documents_go_through_a_learnt_tokenizer_one_by_one(lines: Path) -> None:
    data = load(lines, packing=True, window=24, tokenizer="byte-bpe", vocab=270, split=(0.5, 0.25, 0.25))
    assert data.train.arrays["tokens"].max() < 270
    assert data.train.bytes == sum(len(text) for text in DOCUMENTS[:12])
    assert 1 < data.train.bytes_per_token < 5


def test_models_that_cannot_tell_documents_apart_refuse_them(lines: Path) -> None:
    data = load(lines, packing=True, window=24)
    with pytest.raises(CapabilityError, match="ngram reads a window as one text"):
        models.build("ngram", data)
    with pytest.raises(ArgumentError, match=r"attention=linear.*cannot tell documents apart"):
        models.build("gpt", data, attention="linear")
    with pytest.raises(ArgumentError, match="streams=2 and packing=true"):
        load(lines, packing=True, streams=2)
    with pytest.raises(DataError, match="no document has two tokens"):
        pack([np.array([1])], length=4)


def test_streams_go_on_where_the_batch_before_ended(tmp_path: Path) -> None:
    path = corpus.write(tmp_path / "long.txt", "".join(map(chr, range(100, 400))).encode())
    data = load(path, window=4, streams=3, split=(0.9, 0.05, 0.05))
    assert data.schema.streams == 3
    assert (data.train.streams, data.val.streams) == (3, 0)
    batches = Batches(len(data.train), 3, shuffle=False).indices(0, 3)
    first, second, third = (data.train.batch(index) for index in batches)
    np.testing.assert_array_equal(first.x[:, -1], second.x[:, 0])
    np.testing.assert_array_equal(second.x[:, -1], third.x[:, 0])
    np.testing.assert_array_equal(second.begins, first.begins + 4)
    assert len(np.unique(data.train.x[:, 1:])) == data.train.x[:, 1:].size, "no token comes twice"
    with pytest.raises(ArgumentError, match=r"(?s)batch=2.*in 3 streams.*use batch=3"):
        fit(models.build("char-rnn", data, width=2), data, batch=2, run=tmp_path / "run")
    with pytest.raises(DataError, match=r"(?s)streams=68.*data.streams=67"):
        load(path, window=4, streams=68)
