"""Pairs of texts on the command line: looked at, trained on, translated, scored and probed."""

from pathlib import Path

import pytest

from .conftest import Command

TRAIN = ["seq2seq", "data=pairs.tsv", "width=8", "embedding=4", "steps=2", "batch=8", "schedule.warmup=0"]


@pytest.mark.slow  # trains end to end
def test_a_file_of_pairs_goes_all_the_way(cli: Command, tmp_path: Path, unreported: None) -> None:
    lines = [f"{i:03d}{chr(97 + i % 7)}\t{chr(97 + i % 7)}{i:03d}\n" for i in range(40)]
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    shown = cli("data", "show", "pairs.tsv")
    assert shown.code == 0
    assert "40 pairs of texts, 17 to 17 symbols" in shown.out
    assert "becomes" in shown.out
    assert "000a" in shown.out
    trained = cli("train", *TRAIN, "--json")
    assert trained.code == 0, trained.err
    run = trained.last["run"]
    sampled = cli("sample", run, "prompt=001b", "n=3", "out=here")
    assert sampled.code == 0, sampled.err
    texts = (tmp_path / "here" / "samples.txt").read_text().split(f"\n{'-' * 20}\n")
    assert len(texts) == 3
    assert sampled.out.startswith(texts[0])
    scored = cli("score", run, "--json").last["metrics"]
    assert {"nats_per_token", "exact_match", "perplexity"} <= scored.keys()
    assert scored["nats_per_token"]["unit"] == "nats/token"
    refused = cli("sample", run, "prompt=12345")
    assert refused.code == 2
    assert "the text has 5 tokens; the model was made for 4 at most" in refused.err
    (tmp_path / "new.txt").write_text("never\nseen\n")
    unknown = cli("predict", run, "new.txt")
    assert unknown.code == 3, unknown.err
    assert "2 of 2 inputs cannot be used" in unknown.out
    probed = cli("probe", run, "alignment", "text=001b", "out=look")
    assert probed.code == 0, probed.err
    assert list((tmp_path / "look").rglob("*.svg"))
