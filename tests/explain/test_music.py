"""The hierarchy of written music: its code lengths are those of a probability, and of a coder that gives bits back."""

import itertools

import numpy as np
import pytest
from scipy.stats import multinomial

from chainrule.explain import experiments
from chainrule.explain.methods.music import CHORDS, PITCHES, Grammar, Music

GRAMMAR = Grammar.written(0.1, 0.15)


def test_the_probabilities_of_all_phrases_sum_to_one() -> None:
    every = 2 * np.array(list(itertools.product(range(12), repeat=4)))  # octaves are all alike
    none = np.zeros((len(every), 4), int)
    bits = GRAMMAR.bits(Music(none[:, 0], none, every[..., None]))
    assert 2**4 * (2.0**-bits.net).sum() == pytest.approx(1, abs=1e-9)
    assert 2**4 * (2.0 ** -bits.alone["surface"]).sum() == pytest.approx(1, abs=1e-9)


def test_what_comes_back_is_the_surprisal_of_the_choice_given_the_notes() -> None:
    """By enumeration of all progressions and chords, bar by bar with another formula of the profile."""
    music = GRAMMAR.drawn(np.random.default_rng(1), 3, 5)
    bits = GRAMMAR.bits(music)
    for phrase in range(3):
        counts = music.profiles[phrase]
        of_bars = np.array(
            [[multinomial.pmf(bar, 5, GRAMMAR.pitches[c]) for c in range(len(CHORDS))] for bar in counts]
        )
        joint = {
            (r, chords): GRAMMAR.progressions[r]
            * np.prod([GRAMMAR.chords[r, i, c] * of_bars[i, c] for i, c in enumerate(chords)])
            for r in range(len(GRAMMAR.progressions))
            for chords in itertools.product(range(len(CHORDS)), repeat=4)
        }
        own = joint[int(music.progressions[phrase]), tuple(music.chords[phrase].tolist())]
        posterior = own / sum(joint.values())
        assert bits.sent[phrase] - bits.net[phrase] == pytest.approx(-np.log2(posterior), abs=1e-9)
        assert bits.given["profile"][phrase] == pytest.approx(
            -np.log2([of_bars[i, c] for i, c in enumerate(music.chords[phrase])]).sum(), abs=1e-9
        )


def test_a_coder_that_gives_bits_back_writes_as_many() -> None:
    """Progressions and chords come off the stack by their exact posterior, notes and choices go on."""
    pytest.importorskip("constriction", reason="`pip install 'chainrule[compress]'` brings the coders")
    from chainrule.data.schema import Schema
    from chainrule.information.compression.bits_back import Known, LatentCode, Move, downward_moves
    from chainrule.information.compression.distributions import CategoricalSymbols

    def bars(notes: np.ndarray) -> np.ndarray:
        pitches = notes.reshape(len(notes), 4, -1) // 2
        return np.prod(GRAMMAR.pitches.T[pitches], axis=2)

    def distribution(move: Move, known: Known, rows: int) -> CategoricalSymbols:
        if move == Move("infer", 2):
            likelihoods = np.einsum("rbc,nbc->nrb", GRAMMAR.chords, bars(known[0])).prod(axis=-1)
            joint = GRAMMAR.progressions * likelihoods
            return CategoricalSymbols((joint / joint.sum(axis=1, keepdims=True))[:, None])
        if move == Move("generate", 2):
            return CategoricalSymbols(np.tile(GRAMMAR.progressions, (rows, 1, 1)))
        if move == Move("generate", 0):
            shares = np.repeat(GRAMMAR.pitches[known[1]] / 2, 2, axis=-1)
            return CategoricalSymbols(np.repeat(shares, 5, axis=1))
        chords = GRAMMAR.chords[known[2][:, 0]]
        joint = chords * bars(known[0]) if move.kind == "infer" else chords
        return CategoricalSymbols(joint / joint.sum(axis=-1, keepdims=True))

    music = GRAMMAR.drawn(np.random.default_rng(2), 400, 5)
    symbols = music.notes.reshape(400, 20).astype(np.int32)
    schema = Schema("image", (20, 1, 1), levels=2 * len(PITCHES))
    code = LatentCode(schema, {}, (4, 1), downward_moves(2), distribution, rows=32).fitted(symbols)
    assert code.cells == (None, None)
    coded = code.encode(symbols, (0,), lambda done: None)
    assert sum(coded.ledger.values()) == pytest.approx(GRAMMAR.bits(music).net.sum(), rel=1e-3)
    np.testing.assert_array_equal(code.decode(coded, 400, (0,), lambda done: None), symbols)
    assert sum(part.sum() for part in code.by_example(symbols).values()) == pytest.approx(
        GRAMMAR.bits(music).net.sum(), rel=1e-3
    )


def test_every_level_is_worth_sending_with_the_one_above() -> None:
    found = experiments.run("music-hierarchy", phrases=300).numbers
    steps = list(found["steps"].values())
    assert steps[0] > steps[1] > steps[3] > steps[4]
    assert found["saved"]["chord"] > found["alone"]["progression"]
    assert found["returned"] > 0
    still = experiments.run("music-hierarchy", phrases=50, substitution=0).numbers
    assert still["given"]["chord"] == 0
