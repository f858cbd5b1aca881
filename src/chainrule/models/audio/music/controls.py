"""What a model of music can be told of an excerpt beside its class: key, mode, tempo, loudness, place in the piece.

Training measures them in the excerpt itself. Each is one of a few levels and goes with every event as a one among
zeros; zeros alone stand for what is not said.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.batches import Batch
from chainrule.data.music import events

ControlName: TypeAlias = Literal["tonality", "mode", "tempo", "velocity", "position"]
NAMES: tuple[ControlName, ...] = get_args(ControlName)
UNSAID = -1
_NOTES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
_SAME = {
    "Cb": "B",
    "Db": "C#",
    "Eb": "D#",
    "E#": "F",
    "Fb": "E",
    "Gb": "F#",
    "Ab": "G#",
    "Bb": "A#",
    "B#": "C",
}
_MODES = ("major", "minor")
_PROFILES = np.array(
    [
        [6.35, 2.23, 3.48, 2.33, 4.38, 4.09, 2.52, 5.19, 2.39, 3.66, 2.29, 2.88],
        [6.33, 2.68, 3.52, 5.38, 2.60, 3.53, 2.54, 4.75, 3.98, 2.69, 3.34, 3.17],
    ]
)
"""How well each pitch fits a major and a minor key, from the tonic upwards (Krumhansl and Kessler, 1982)."""
_PACES = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
"""Notes a second from which on the next level of the tempo begins."""
_LOUDNESSES = 8
_VELOCITIES = 128
_PARTS = 8
"""Of a piece, from its beginning to its end."""
_HIDDEN = 0.5
"""How often a control is not said of an excerpt of which any may be."""
_SHIFT = 2 * events.PITCHES
_LOUDNESS = _SHIFT + events.SHIFTS


class MusicControl(NamedTuple):
    """One thing that can be said."""

    levels: int
    measure: Callable[[Batch], Int[Array, " batch"]]
    """The level of each excerpt; `UNSAID` where it has none."""
    level: Callable[[Any], int]
    """The level that a user means."""


def _keys(batch: Batch) -> Int[Array, " batch"]:
    """The key whose profile the pitches of the notes follow most: twelve major ones, then twelve minor ones."""
    strikes = batch.x < events.PITCHES
    counts = (jax.nn.one_hot(batch.x % 12, 12) * strikes[..., None]).sum(axis=1)
    fits = np.stack([np.roll(profile, tonic) for profile in _PROFILES for tonic in range(12)])
    fits = (fits - fits.mean(axis=1, keepdims=True)) / fits.std(axis=1, keepdims=True)
    best = jnp.argmax(jnp.matmul(counts, jnp.asarray(fits.T, counts.dtype)), axis=1)
    return jnp.where(strikes.any(axis=1), best, UNSAID)


def _modes(batch: Batch) -> Int[Array, " batch"]:
    keys = _keys(batch)
    return jnp.where(keys == UNSAID, UNSAID, keys // 12)


def _paces(batch: Batch) -> Int[Array, " batch"]:
    """Notes a second."""
    x = batch.x
    steps = jnp.where((x >= _SHIFT) & (x < _LOUDNESS), x - _SHIFT + 1, 0).sum(axis=1)
    notes = (x < events.PITCHES).sum(axis=1)
    pace = notes / (jnp.maximum(steps, 1) * events.STEP)
    level = (pace[:, None] >= jnp.array(_PACES)[None]).sum(axis=1)
    return jnp.where((steps > 0) & (notes > 0), level, UNSAID)


def _strengths(batch: Batch) -> Int[Array, " batch"]:
    """How hard the notes are struck, on average over those of which an event says it."""
    x, at = batch.x, jnp.arange(batch.x.shape[1])[None]
    last = jax.lax.cummax(jnp.where(x >= _LOUDNESS, at, -1), axis=1)
    loudness = jnp.take_along_axis(x, jnp.maximum(last, 0), axis=1) - _LOUDNESS
    known = (x < events.PITCHES) & (last >= 0)
    mean = jnp.where(known, loudness, 0).sum(axis=1) / jnp.maximum(known.sum(axis=1), 1)
    level = (mean * (_LOUDNESSES / events.LOUDNESSES)).astype(jnp.int32)
    return jnp.where(known.any(axis=1), level, UNSAID)


def _places(batch: Batch) -> Int[Array, " batch"]:
    """Which part of its piece the middle of each excerpt lies in."""
    if batch.position is None:
        return jnp.full(len(batch.x), UNSAID)
    return (batch.position * _PARTS).astype(jnp.int32).clip(0, _PARTS - 1)


def _key_of(value: str) -> int:
    tonic, _, mode = value.strip().replace("♯", "#").replace("♭", "b").partition(" ")
    tonic = tonic[:1].upper() + tonic[1:]
    tonic, mode = _SAME.get(tonic, tonic), mode.strip() or "major"
    if tonic not in _NOTES or mode not in _MODES:
        raise ArgumentError(
            f"tonality={value}: a key is a note, and major or minor{suggest(mode, _MODES)}",
            remedy="for example: tonality='A minor', tonality='E♭ major'",
        )
    return 12 * _MODES.index(mode) + _NOTES.index(tonic)


CONTROLS: Mapping[ControlName, MusicControl] = {
    "tonality": MusicControl(len(_MODES) * 12, _keys, _key_of),
    "mode": MusicControl(len(_MODES), _modes, _MODES.index),
    "tempo": MusicControl(
        len(_PACES) + 1, _paces, lambda value: int(np.searchsorted(_PACES, value, side="right"))
    ),
    "velocity": MusicControl(_LOUDNESSES, _strengths, lambda value: int(value) * _LOUDNESSES // _VELOCITIES),
    "position": MusicControl(_PARTS, _places, lambda value: min(int(value * _PARTS), _PARTS - 1)),
}


def size(names: Sequence[ControlName]) -> int:
    """How many numbers say them.

    >>> size(["mode", "tempo"])
    10
    """
    return sum(CONTROLS[name].levels for name in names)


def measured(names: Sequence[ControlName], batch: Batch) -> Int[Array, "batch controls"]:
    """The level of each control in each excerpt.

    >>> scale = Batch(jnp.array([[60, 62, 64, 65, 67, 69, 71, 72, 67, 64, 60]]))
    >>> measured(["tonality", "mode", "tempo"], scale).tolist()  # no time passes
    [[0, 0, -1]]
    """
    levels = [CONTROLS[name].measure(batch).astype(jnp.int32) for name in names]
    return jnp.stack(levels, axis=1) if levels else jnp.zeros((len(batch.x), 0), jnp.int32)


def hidden(key: Key, levels: Int[Array, "batch controls"], share: float) -> Int[Array, "batch controls"]:
    """All controls of this share of the excerpts unsaid; of the others each in every second one."""
    for_all, for_each = jax.random.split(key)
    whole = jax.random.bernoulli(for_all, share, (len(levels), 1))
    single = jax.random.bernoulli(for_each, _HIDDEN, levels.shape)
    return jnp.where(whole | single, UNSAID, levels)


def asked(
    names: Sequence[ControlName], given: Mapping[ControlName, Any]
) -> Int[np.ndarray, " controls"] | None:
    """The levels that a user asks for; what is not said is `UNSAID`, and nothing said `None`.

    >>> asked(["mode", "tempo"], {"tempo": 5.0, "mode": None}).tolist()
    [-1, 4]
    """
    said = {name: value for name, value in given.items() if value is not None}
    for name, value in said.items():
        if name not in names:
            known = f"it was told: {', '.join(names)}" if names else "it was told nothing but the class"
            raise ArgumentError(
                f"{name}={value}: this model was not told the {name} of its music; {known}",
                remedy=f"leave it out, or train with controls={','.join([*names, name])}",
            )
    levels = {name: CONTROLS[name].level(value) for name, value in said.items()}
    if levels.keys() >= {"tonality", "mode"} and levels["tonality"] // 12 != levels["mode"]:
        raise ArgumentError(
            f"mode={said['mode']}: the key is {said['tonality']}", remedy="leave mode out: the key has one"
        )
    return np.array([levels.get(name, UNSAID) for name in names], np.int32) if levels else None


def vectors(
    names: Sequence[ControlName], levels: Int[Array, "batch controls"]
) -> Float[Array, "batch numbers"]:
    """Ones among zeros."""
    parts = [jax.nn.one_hot(levels[:, at], CONTROLS[name].levels) for at, name in enumerate(names)]
    return jnp.concatenate([jnp.zeros((len(levels), 0)), *parts], axis=1)


__all__ = ["CONTROLS", "NAMES", "UNSAID", "ControlName", "asked", "hidden", "measured", "size", "vectors"]
