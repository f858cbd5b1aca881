"""A small grammar of tonal music, level by level, and what coding each level costs: exactly, in bits.

A progression says which chord a bar is likely to have, a chord which pitch classes, the profile of a bar how often each
of them sounds, the surface in which order and octave. Every level is a code of the one below; a level is worth sending
where it saves the one below more than it costs. Chords and progressions are no functions of the notes: choosing them by
their posterior pays back what the choice cost (bits back), and what is left is the surprisal of the notes themselves.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, logsumexp

PITCHES = ("C", "C♯", "D", "E♭", "E", "F", "F♯", "G", "A♭", "A", "B♭", "B")
CHORDS = ("I", "ii", "iii", "IV", "V", "vi", "vii°")
PROGRESSIONS = {
    ("I", "IV", "V", "I"): 0.3,
    ("I", "vi", "ii", "V"): 0.25,
    ("I", "V", "vi", "IV"): 0.25,
    ("ii", "V", "I", "I"): 0.2,
}
_SCALE = (0, 2, 4, 5, 7, 9, 11)
_CHROMATIC = 0.1
"""Share of the strange notes that are not in the scale."""
_OCTAVES = 2


@final
class Music(NamedTuple):
    """Phrases with all their levels; a note is a pitch class times two, plus its octave."""

    progressions: Int[np.ndarray, " phrases"]
    chords: Int[np.ndarray, "phrases bars"]
    notes: Int[np.ndarray, "phrases bars notes"]

    @property
    def profiles(self) -> Int[np.ndarray, "phrases bars pitches"]:
        """How often each pitch class sounds in a bar."""
        return (self.notes[..., None] // _OCTAVES == np.arange(len(PITCHES))).sum(axis=-2)


@final
class LevelBits(NamedTuple):
    """Bits of every phrase: each level by itself, given the level above, and all of them with bits back."""

    alone: dict[str, Float[np.ndarray, " phrases"]]
    given: dict[str, Float[np.ndarray, " phrases"]]
    net: Float[np.ndarray, " phrases"]
    """Minus the logarithm of the probability of the notes: what is left when the choice of chords is paid back."""

    @property
    def sent(self) -> Float[np.ndarray, " phrases"]:
        """All levels, nothing back."""
        return sum(self.given.values(), start=np.zeros_like(self.net))


LEVELS = ("surface", "profile", "chord", "progression")


@final
@dataclass(frozen=True)
class Grammar:
    """Probabilities of every level given the one above."""

    progressions: Float[np.ndarray, " progressions"]
    chords: Float[np.ndarray, "progressions bars chords"]
    pitches: Float[np.ndarray, "chords pitches"]

    @classmethod
    def written(cls, substitution: float, strange: float) -> "Grammar":
        """Four progressions; other chords in a share `substitution` of the bars, `strange` notes beside the chord.

        >>> Grammar.written(0.1, 0.2).pitches[0].round(3).tolist()[:5]
        [0.267, 0.004, 0.045, 0.004, 0.267]
        """
        wanted = np.array([[CHORDS.index(one) for one in names] for names in PROGRESSIONS])
        own = np.eye(len(CHORDS))[wanted]
        chords = (1 - substitution) * own + substitution * (1 - own) / (len(CHORDS) - 1)
        rows = []
        for root in range(len(CHORDS)):
            triad = [_SCALE[(root + third) % 7] for third in (0, 2, 4)]
            shares = np.full(len(PITCHES), strange * _CHROMATIC / 5)
            shares[list(_SCALE)] = strange * (1 - _CHROMATIC) / 4
            shares[triad] = (1 - strange) / 3
            rows.append(shares)
        return cls(np.array(list(PROGRESSIONS.values())), chords, np.array(rows))

    @property
    def stationary(self) -> Float[np.ndarray, " chords"]:
        """How often each chord comes."""
        found: np.ndarray = np.einsum("r,rbc->c", self.progressions, self.chords) / self.chords.shape[1]
        return found

    def drawn(self, draw: np.random.Generator, phrases: int, notes: int) -> Music:
        """New phrases with so many notes in each bar."""
        progressions = draw.choice(len(self.progressions), phrases, p=self.progressions)
        chords = _chosen(draw, self.chords[progressions])
        wide = np.broadcast_to(self.pitches[chords][:, :, None], (*chords.shape, notes, len(PITCHES)))
        return Music(
            progressions, chords, _OCTAVES * _chosen(draw, wide) + draw.integers(0, _OCTAVES, wide.shape[:-1])
        )

    def bits(self, music: Music) -> LevelBits:
        """What every level of some music costs."""
        profiles, octaves = music.profiles, music.notes[0].size * np.log2(_OCTAVES)
        orders = (gammaln(profiles.sum(axis=-1) + 1) - gammaln(profiles + 1).sum(axis=-1)) / np.log(2)
        # Of the notes of a bar in their order, by every chord it could have.
        by_chord = profiles @ np.log2(self.pitches).T
        own = np.take_along_axis(by_chord, music.chords[..., None], axis=-1)[..., 0]
        with np.errstate(divide="ignore"):  # without substitutions some chords cannot be
            log_chords, log_stationary = np.log2(self.chords), np.log2(self.stationary)
        alone_profile = -_log2_sum(by_chord + log_stationary) - orders
        single = -(profiles @ np.log2(self.stationary @ self.pitches))
        chord = np.take_along_axis(log_chords[music.progressions], music.chords[..., None], axis=-1)
        bars = _log2_sum(log_chords[None] + by_chord[:, None])
        alone = {
            "surface": single.sum(axis=1) + octaves,
            "profile": alone_profile.sum(axis=1),
            "chord": -log_stationary[music.chords].sum(axis=1),
            "progression": -np.log2(self.progressions)[music.progressions],
        }
        given = {
            "surface": orders.sum(axis=1) + octaves,
            "profile": (-own - orders).sum(axis=1),
            "chord": -chord[..., 0].sum(axis=1),
            "progression": alone["progression"],
        }
        return LevelBits(alone, given, octaves - _log2_sum(bars.sum(axis=-1) + np.log2(self.progressions)))


def _chosen(
    draw: np.random.Generator, shares: Float[np.ndarray, "*shape choices"]
) -> Int[np.ndarray, "*shape"]:
    below = np.cumsum(shares, axis=-1)
    marks = draw.random(shares.shape[:-1])[..., None] * below[..., -1:]
    return np.asarray((below <= marks).sum(axis=-1))


def _log2_sum(values: np.ndarray) -> np.ndarray:
    return np.asarray(logsumexp(values * np.log(2), axis=-1) / np.log(2))


__all__ = ["CHORDS", "LEVELS", "PITCHES", "PROGRESSIONS", "Grammar", "LevelBits", "Music"]
