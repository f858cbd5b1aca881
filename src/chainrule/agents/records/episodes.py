"""Stored episodes as examples to learn from: what was seen, what was done, and what came of it."""

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.envs.base import Environment
from chainrule.agents.evaluation.recording import Recording
from chainrule.core.errors import DataError
from chainrule.core.types import Array, Float, Int

_MISSING = 0.05
"""Largest weight of what an episode that was cut off might have earned later, up to which a return is known."""


class EpisodeSteps(NamedTuple):
    """Steps of episodes, each of one row."""

    observation: Array
    action: Array
    outcome: Float[Array, " steps"]
    """The discounted return from here on."""
    known: Float[Array, " steps"]
    """1 where that is all there was to come, or nearly; else 0."""
    episode: Int[Array, " steps"]
    """Which episode it is from."""

    def __len__(self) -> int:
        return self.episode.shape[0]


def read_episodes(env: Environment[Any], path: str) -> list[Recording]:
    """All recordings in a folder and those inside, by name: of episodes in this environment, or none is taken."""
    folder = Path(path).expanduser()
    files = sorted(folder.rglob("*.safetensors")) if folder.is_dir() else []
    found = [file.with_suffix("") for file in files if file.with_suffix(".json").is_file()]
    if not found:
        raise DataError(
            f"there are no recorded episodes (*.safetensors, each with its *.json) in {path!r}",
            remedy="name the folder episodes/ of a run, or learn from a run: teacher=RUN",
        )
    real = os.path.realpath(folder)
    for one in found:
        if not Path(os.path.realpath(one)).is_relative_to(real):
            raise DataError(f"{one.name} is a link that leaves the folder")
    return [Recording.load(one, env) for one in found]


def steps_of(recordings: Sequence[Recording], gamma: float) -> EpisodeSteps:
    """All steps of some episodes.

    The return of an episode that was cut off is known as far from its end as what is missing no longer counts.
    """
    kept = [one for one in recordings if len(one)]
    if not kept:
        raise DataError("none of the episodes has a step")
    columns = []
    for number, one in enumerate(kept):
        left = len(one) - np.arange(len(one))
        known = np.full(len(one), one.terminated) | (float(gamma) ** left <= _MISSING)
        columns.append(
            (
                one.observations[: len(one)],
                one.actions,
                one.rest(gamma).astype(np.float32),
                known.astype(np.float32),
                np.full(len(one), number, np.int32),
            )
        )
    return EpisodeSteps(*(jnp.asarray(np.concatenate(column)) for column in zip(*columns, strict=True)))


def divided_episodes(steps: EpisodeSteps, share: float) -> tuple[EpisodeSteps, EpisodeSteps]:
    """Steps to learn from and steps to judge by, no episode in both; which episodes is a matter of chance."""
    count = int(steps.episode.max()) + 1
    if count < 2:
        raise DataError("there is one episode only: one to learn from and one to judge by are needed")
    out = np.random.default_rng(0).permutation(count)[: min(count - 1, max(1, round(share * count)))]
    chosen = np.isin(np.asarray(steps.episode), out)
    learnt, held = (jax.tree.map(functools.partial(_rows, which=which), steps) for which in (~chosen, chosen))
    return learnt, held


def _rows(column: Array, which: np.ndarray) -> Array:
    return jnp.asarray(np.asarray(column)[which])


__all__ = ["EpisodeSteps", "divided_episodes", "read_episodes", "steps_of"]
