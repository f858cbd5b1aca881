"""Mode collapse: every game on a ring of Gaussians whose modes are known, so that what is missing can be counted.

All games have the same networks, noise, batches and number of steps; only what the players minimise differs. Wide modes
are easy, narrow ones leave gaps between them in which most scores are flat.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, final

import jax
import numpy as np
from pydantic import Field

from chainrule import data, models
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.pictures import Bars, Picture, Scatter, Table
from chainrule.data.dataset import Data
from chainrule.data.generated.toys import modes_of
from chainrule.explain.methods.training import train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models.protocol import CanSample
from chainrule.probability.samples import ModeCoverage, mode_coverage

_SAMPLES = 2500
_R = {"r1": 0.1, "r2": 0.1}
_FREE = {"r1": 0.0, "r2": 0.0}
GAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "minimax": ("gan", {"game": "minimax", **_FREE}),
    "non-saturating": ("gan", {"game": "non-saturating", **_FREE}),
    "non-saturating with R1 and R2": ("gan", {"game": "non-saturating", **_R}),
    "least squares": ("gan", {"game": "least-squares", **_FREE}),
    "hinge": ("gan", {"game": "hinge", **_FREE}),
    "spectral hinge": ("gan", {"game": "hinge", "spectral": "layer", **_FREE}),
    "relativistic": ("gan", {"game": "relativistic", **_FREE}),
    "relativistic with R1 and R2": ("gan", {"game": "relativistic", **_R}),
    "f-GAN of 2 JSD": ("f-gan", {"divergence": "2-jsd"}),
    "f-GAN of Hellinger": ("f-gan", {"divergence": "hellinger"}),
    "Wasserstein with penalty": ("wgan-gp", {"lam": 1.0, "n_critic": 3}),
    "Wasserstein with clipping": ("wgan", {"n_critic": 5}),
}
"""What is compared: models with their settings, by names without commas, so that each can be asked for in a list."""


@final
class ModeCollapseSettings(Settings):
    """The data, and how long the games are played."""

    data: Literal["ring", "grid"] = Field("ring", description="modes on a circle, or on a grid of 5×5")
    noise: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field(
        (0.1, 0.02), min_length=1, max_length=8, description="widths of the modes"
    )
    games: tuple[str, ...] = Field(
        (), description="games by name, or by a part that several may have; all if none are given"
    )
    steps: int = Field(4000, ge=1, description="moves of the generator")
    batch: int = Field(128, ge=8, description="examples of a batch")
    lr: float = Field(5e-4, gt=0, le=1, description="learning rate of both players; of the clipped game 5e-5")
    width: int = Field(64, ge=1, le=1024, description="units of the three hidden layers of both networks")
    seeds: int = Field(1, ge=1, le=20, description="trainings of each game")


def run(settings: ModeCollapseSettings, listener: Listener) -> Outcome:
    """Play every game and count modes."""
    chosen = chosen_games(settings.games)
    found: dict[tuple[str, float], list[ModeCoverage | None]] = {}
    drawn: dict[str, np.ndarray] = {}
    for noise in settings.noise:
        ring = data.load(settings.data, noise=noise)
        for name in chosen:
            model, own = GAMES[name]
            for seed in range(settings.seeds):
                listener(f"{name}, modes {noise:g} wide, seed {seed}")
                samples = _played(model, own, ring, settings, seed)
                modes = modes_of(ring.source)
                assert modes is not None
                cover = None if samples is None else mode_coverage(samples, modes.centres, modes.deviation)
                found.setdefault((name, noise), []).append(cover)
                if samples is not None and seed == 0 and noise == settings.noise[-1]:
                    drawn[name] = samples
    return _outcome(settings, found, drawn)


def chosen_games(parts: Sequence[str]) -> list[str]:
    """The games whose names are given, or have a part that is; all without any.

    >>> chosen_games(["hinge"]), chosen_games(["relativistic with", "clip"])
    (['hinge'], ['relativistic with R1 and R2', 'Wasserstein with clipping'])
    """
    found: set[str] = set() if parts else set(GAMES)
    for part in parts:
        meant = {part} & GAMES.keys() or {name for name in GAMES if part.lower() in name.lower()}
        if not meant:
            raise ArgumentError(
                f"games={part}: no game is called {part!r}{suggest(part, GAMES)}",
                remedy=f"games are: {', '.join(GAMES)}",
            )
        found |= meant
    return [name for name in GAMES if name in found]


def _played(
    name: str, own: Mapping[str, Any], ring: Data, settings: ModeCollapseSettings, seed: int
) -> np.ndarray | None:
    """Samples of one trained game; nothing where it diverged."""
    entry = models.entry(name)
    optimizer = {**entry.training["optimizer"]}
    if optimizer["name"] == "adam":
        optimizer |= {"lr": settings.lr, "betas": (0.5, 0.9)}
    training = {
        **entry.training_for(ring.schema),
        "optimizer": optimizer,
        "batch": settings.batch,
        "seed": seed,
    }
    left_out = ("steps", "eval_every")
    training = {key: value for key, value in training.items() if key not in left_out}
    model = models.build(name, ring, seed=seed, width=settings.width, **own)
    done = train(model, ring, steps=settings.steps, every=settings.steps, **training)
    if not done.is_finite:
        return None
    assert isinstance(done.model, CanSample)
    return np.asarray(ring.inverse(np.asarray(done.model.sample(jax.random.key(seed), _SAMPLES))))


def _outcome(
    settings: ModeCollapseSettings,
    found: Mapping[tuple[str, float], list[ModeCoverage | None]],
    drawn: Mapping[str, np.ndarray],
) -> Outcome:
    rows: list[list[str | float | int]] = []
    numbers: dict[str, Any] = {}
    for (name, noise), runs in found.items():
        good = [cover for cover in runs if cover is not None]
        total = good[0].modes if good else 0
        whole = sum(cover.covered == cover.modes for cover in good)
        covered = "/".join("-" if cover is None else str(cover.covered) for cover in runs)
        quality, width, uneven = (
            float(np.mean([getattr(cover, of) for cover in good])) if good else float("nan")
            for of in ("high_quality", "deviation", "divergence")
        )
        rows.append([name, noise, covered, f"{whole} of {len(runs)}", quality, width, uneven])
        numbers[f"{name}, {noise:g}"] = {
            "covered": [None if cover is None else cover.covered for cover in runs],
            "modes": total,
            "high_quality": quality,
            "deviation": width,
            "divergence": uneven,
        }
    columns = ["game", "mode width", "modes", "runs with all", "high quality", "width ratio", "KL to even"]
    table = Table("mode-collapse", f"{settings.steps:,} steps of {settings.batch}", columns, rows)
    complete = [row for row in rows if str(row[3]).split(" of ")[0] == str(settings.seeds)]
    best = max(rows, key=lambda row: float(row[4]) if np.isfinite(float(row[4])) else -1.0)
    findings = [
        f"{len(complete)} of {len(rows)} games reached every mode in every run.",
        f"The largest share of samples within three deviations of a mode is {float(best[4]):.0%}: {best[0]}, modes "
        f"{best[1]:g} wide.",
    ]
    return Outcome(findings, _pictures(settings, found, drawn), table, numbers)


def _pictures(
    settings: ModeCollapseSettings,
    found: Mapping[tuple[str, float], list[ModeCoverage | None]],
    drawn: Mapping[str, np.ndarray],
) -> list[Picture]:
    names = list(dict.fromkeys(name for name, _ in found))
    series = {
        f"modes {noise:g} wide": np.array(
            [
                np.mean([0.0 if cover is None else cover.high_quality for cover in found[name, noise]])
                for name in names
            ]
        )
        for noise in settings.noise
    }
    shares = Bars(
        "high-quality",
        "Samples within three deviations of a mode",
        "game",
        "share",
        names,
        series,
        caption="A run that diverged counts as none.",
    )
    clouds = [
        Scatter(
            f"samples-{number}",
            name,
            "first coordinate",
            "second coordinate",
            {"samples": samples[:1000]},
            caption=f"Modes {settings.noise[-1]:g} wide, seed 0.",
        )
        for number, (name, samples) in enumerate(drawn.items())
    ]
    return [shares, *clouds]


experiment = Experiment(
    "Every adversarial game on a ring or grid of modes: how many it finds, and how well.",
    ModeCollapseSettings,
    run,
    toy={"steps": 4, "noise": (0.1,), "games": ("minimax", "clipping"), "width": 8, "batch": 16},
    reference="Metz, Poole, Pfau and Sohl-Dickstein, Unrolled generative adversarial networks, ICLR 2017",
)

__all__ = ["GAMES", "ModeCollapseSettings", "chosen_games", "experiment", "run"]
