import json
import re
from pathlib import Path

import pytest

from chainrule.cli import output
from chainrule.cli.tokens import paint_pieces
from chainrule.data import load
from chainrule.data.text import tokenizers
from tests.cli.conftest import Command


def test_merges_and_tokens_of_a_text_are_shown(cli: Command) -> None:
    result = cli("data", "tokens", "shakespeare", "vocab=90")
    assert result.code == 0
    assert "bytes per token" in result.out
    shown = cli("data", "tokens", "shakespeare", "vocab=90", "--json").last
    assert "|".join(shown["sample"]) in result.out
    assert "".join(shown["sample"]).startswith("FIRST WITCH.")
    tokenizer = tokenizers.of(load("shakespeare", tokenizer="bpe", vocab=90).schema)
    assert isinstance(tokenizer, tokenizers.BPE)
    assert tuple((m["left"], m["right"]) for m in shown["merges"]) == tokenizer.merges
    assert shown["fingerprint"] == tokenizer.fingerprint
    assert shown["merges"][0]["count"] >= shown["merges"][1]["count"]


def test_pictures_and_the_tokenizer_are_written(cli: Command) -> None:
    shown = cli(
        "data", "tokens", "shakespeare", "tokenizer=byte-bpe", "vocab=300", "out=tokens", "--json"
    ).last
    assert [Path(file).name for file in shown["files"]] == [
        "tokenizer.json",
        "merges.svg",
        "merged-text.svg",
        "vocabulary-text.svg",
        "vocabulary-context.svg",
    ]
    assert all(Path(file).stat().st_size > 0 for file in shown["files"])
    again = cli("data", "tokens", "shakespeare", "tokenizer=tokens/tokenizer.json", "--json").last
    assert again["fingerprint"] == shown["fingerprint"]
    assert again["sample"] == shown["sample"]
    assert json.loads(Path("tokens/tokenizer.json").read_text())["version"] == "1.0"


def test_words_outside_the_vocabulary_are_counted(cli: Command) -> None:
    assert "% unknown" in cli("data", "tokens", "shakespeare", "tokenizer=word", "vocab=100").out


def test_data_without_text_have_no_tokens(cli: Command) -> None:
    result = cli("data", "tokens", "digits")
    assert result.code == 2
    assert "only text has tokens" in result.err


def test_tokens_are_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = ["The", " end", ".\n", "\n", "x"]
    assert paint_pieces(pieces) == "The| end|.\n|\n|x"
    monkeypatch.setattr(output, "colourful", lambda stream: True)
    painted = paint_pieces(pieces)
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == "".join(pieces)
    assert painted.count("\x1b[0m") == painted.count("\x1b[97;48;5;")
