"""Music as a hierarchy of codes: what each level costs, and what it saves the level below."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Bars, Heatmap, Picture, Table
from chainrule.explain.methods.music import CHORDS, LEVELS, PITCHES, Grammar, Music
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings


@final
class MusicHierarchySettings(Settings):
    """What is written."""

    phrases: int = Field(500, ge=1, le=100_000, description="phrases of four bars")
    notes: int = Field(8, ge=1, le=64, description="notes of a bar")
    substitution: float = Field(0.1, ge=0, lt=1, description="share of the bars with another chord")
    strange: float = Field(0.15, gt=0, lt=1, description="share of the notes that are not of the chord")
    seed: int = Field(0, ge=0, description="decides the phrases")


def run(settings: MusicHierarchySettings, listener: Listener) -> Outcome:
    """Write phrases by the grammar, and count the bits of every level."""
    del listener
    grammar = Grammar.written(settings.substitution, settings.strange)
    music = grammar.drawn(np.random.default_rng(settings.seed), settings.phrases, settings.notes)
    bits = grammar.bits(music)
    alone, given = _totals(bits.alone, music), _totals(bits.given, music)
    saved = {name: alone[name] - given[name] for name in LEVELS[:-1]}
    steps = _steps(alone, given, float(bits.net.sum() / music.notes.size))
    back = steps["all four levels"] - steps["bits back"]
    findings = [
        f"Coded note by note, {music.notes.size:,} notes take {steps['surface']:.4f} bits each; by all levels, with "
        f"bits back, {steps['bits back']:.4f}.",
        f"The profile of its bar saves the surface {saved['surface']:.4f} bits of a note and costs "
        f"{alone['profile']:.4f} by itself. The chord saves the profile {saved['profile']:.4f} and costs "
        f"{alone['chord']:.4f}. The progression saves the chord {saved['chord']:.4f} and costs "
        f"{alone['progression']:.4f}.",
        f"Chords and progressions are choices that notes do not settle: sending them and getting nothing back takes "
        f"{steps['all four levels']:.4f} bits, of which {back:.4f} come back.",
    ]
    return Outcome(
        findings,
        [_by_level(alone, given), _ladder(steps), _profiles(music)],
        Table(
            "levels",
            "Bits of a note, level by level",
            ["level", "by itself", "given the level above", "saved"],
            [[name, *(float(f"{x:.4f}") for x in _row(name, alone, given))] for name in LEVELS],
        ),
        {"alone": alone, "given": given, "saved": saved, "steps": steps, "returned": back},
    )


def _totals(bits: dict[str, np.ndarray], music: Music) -> dict[str, float]:
    """Bits of a note."""
    return {name: float(values.sum() / music.notes.size) for name, values in bits.items()}


def _row(name: str, alone: dict[str, float], given: dict[str, float]) -> tuple[float, float, float]:
    return alone[name], given[name], alone[name] - given[name]


def _steps(alone: dict[str, float], given: dict[str, float], net: float) -> dict[str, float]:
    """The whole code, with one level more at a time."""
    surface, profile = given["surface"], given["profile"]
    return {
        "surface": alone["surface"],
        "and profiles": alone["profile"] + surface,
        "and chords": alone["chord"] + profile + surface,
        "all four levels": sum(given.values()),
        "bits back": net,
    }


def _by_level(alone: dict[str, float], given: dict[str, float]) -> Picture:
    return Bars(
        "level-costs",
        "What each level costs",
        "level",
        "bits of a note",
        LEVELS,
        {
            "by itself": np.array([alone[name] for name in LEVELS]),
            "given the one above": np.array([given[name] for name in LEVELS]),
        },
        caption="The difference is what the level above saves; it has to be more than that level costs.",
    )


def _ladder(steps: dict[str, float]) -> Picture:
    return Bars(
        "codes",
        "The whole code, level by level",
        "what is sent",
        "bits of a note",
        list(steps),
        {"bits": np.array(list(steps.values()))},
        caption="Chords by themselves never save more than they cost: it is their progression that makes them worth "
        "sending.",
    )


def _profiles(music: Music) -> Picture:
    counts = [music.profiles[music.chords == number].mean(axis=0) for number in np.unique(music.chords)]
    names = [CHORDS[number] for number in np.unique(music.chords)]
    return Heatmap(
        "profiles",
        "Profiles of bars, by chord",
        "pitch class",
        "chord",
        np.stack(counts),
        names,
        PITCHES,
        caption="How often each pitch class sounds in a bar, on average.",
    )


experiment = Experiment(
    "Surface, profile, chord and progression of written music: what each level costs, and what it saves the one below.",
    MusicHierarchySettings,
    run,
    toy={"phrases": 20},
    reference="Townsend, Bird and Barber, Practical lossless compression with latent variables using bits back coding, "
    "ICLR 2019",
)

__all__ = ["MusicHierarchySettings", "experiment", "run"]
