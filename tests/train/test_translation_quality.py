"""BLEU and chrF against the figures of sacrebleu 2.5 for the same texts, and by hand."""

import math

import numpy as np
import pytest

from chainrule.train.translation_quality import (
    bleu,
    bleu_statistics,
    chrf,
    chrf_statistics,
    with_error,
    words,
)

CORPORA = {
    "common": (
        [
            "the cat sat on the mat",
            "there is a dog in the garden, is it not?",
            "it cost 3,200.50 dollars - a lot",
        ],
        [
            "the cat is on the mat",
            "a dog is in the garden, isn't it?",
            "it cost 3,200.50 dollars, which is a lot",
        ],
        (33.86854985606571, 66.10537376712139),
    ),
    "entities, and orders without a match": (
        ["Er geht &quot;heute&quot; nicht (nach Hause).", "ja"],
        ["Er geht heute nicht nach Hause.", "nein"],
        (11.929742689527204, 52.595071265410354),
    ),
    "nothing in common": (
        ["completely different words appear here now", "and nothing else matches at all today"],
        ["the quick brown fox jumps over lazy dogs", "one two three four five six seven"],
        (0.0, 12.005272883266176),
    ),
    "dates": (
        ["1998-05-03", "2001-12-24"],
        ["1998-05-03", "2001-12-25"],
        (83.75922397086269, 92.95304232804233),
    ),
    "too short, and beyond ASCII": (
        ["short", "naïve Äpfel 🙂 sind rot und süß heute"],
        ["a much longer reference than that", "naive Äpfel 🙂 sind rot und sauer heute"],
        (30.143970757897378, 40.66079839832987),
    ),
    "empty": (["", "a b c d e f"], ["x y", "a b c d e f"], (71.65313105737896, 94.3661971830986)),
}


@pytest.mark.parametrize("name", CORPORA)
def test_figures_are_those_of_sacrebleu(name: str) -> None:
    ours, theirs, expected = CORPORA[name]
    found = bleu(bleu_statistics(ours, theirs).sum(axis=0)), chrf(chrf_statistics(ours, theirs).sum(axis=0))
    assert found == pytest.approx(expected, abs=1e-9)


def test_bleu_by_hand() -> None:
    """Five of six words, three of five pairs, two of four triples, one of three quadruples; as long as the other."""
    found = bleu(bleu_statistics(["the cat sat on the mat"], ["the cat sat on a mat"]).sum(axis=0))
    assert found == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    short = bleu(bleu_statistics(["a b c d"], ["a b c d e f"]).sum(axis=0))
    assert short == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_texts_without_four_words_have_no_bleu_and_a_perfect_chrf() -> None:
    assert math.isnan(bleu(bleu_statistics(["321"], ["321"]).sum(axis=0)))
    assert chrf(chrf_statistics(["321"], ["321"]).sum(axis=0)) == 100
    assert words("a-b 1-2") == ["a-b", "1", "-", "2"]


def test_the_error_is_that_of_drawing_the_texts_again() -> None:
    right = np.arange(400) % 2
    statistics = np.stack([right, np.ones(400)], axis=1).astype(float)
    value, error = with_error(statistics, lambda total: float(total[0] / total[1]))
    assert value == 0.5
    assert error == pytest.approx(0.5 / 20, rel=0.2)
