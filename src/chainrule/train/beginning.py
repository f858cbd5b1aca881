"""The beginning of a run: what is said about it, and whether its checkpoints will fit on the disk."""

import os
from collections.abc import Iterable
from pathlib import Path

import equinox as eqx
import jax

from chainrule import models
from chainrule.core import machine, tree
from chainrule.core.errors import ArgumentError, DiskError
from chainrule.core.formatting import count, memory_size
from chainrule.data.dataset import Data
from chainrule.data.loading.load import check_command
from chainrule.models.protocol import Model, parameter_count
from chainrule.nn.sequential import batch_statistics
from chainrule.train import events, freezing
from chainrule.train.adapters import attached
from chainrule.train.config import TrainConfig
from chainrule.train.files import free_bytes
from chainrule.train.run import Run
from chainrule.train.state import initial_state


def described(data: Data) -> str:
    """A line about the data, with all that is odd about them."""
    odd = ", ".join(f"{kind} ({number:,})" for kind, number in data.notes)
    if odd and data.source:
        odd += f"; each of them: {check_command(data.source)}"
    return f"{data.name}   {data.describe()}{f'   noted: {odd}' if odd else ''}"


def started(run: Run, model: Model, step: int, total: int) -> events.Started:
    """A few lines about data, model and device."""
    device, data, config = jax.devices()[0], run.data, run.settings
    cores = f", {os.cpu_count()} cores" if device.platform == "cpu" else f" ({device.device_kind})"
    model = attached(model, config)
    parameters = parameter_count(model)
    held = tree.size(eqx.filter(model, freezing.frozen(model, config)))
    frozen = f", {count(held)} of them frozen" if held else ""
    if config.lora.rank:
        frozen += f", {count(parameters - held)} learn (rank {config.lora.rank})"
    return events.Started(
        run=run.id,
        path=str(run.path),
        data=described(data),
        model=f"{models.title(model)}   {count(parameters)} parameters{frozen}",
        device=f"{device.platform}{cores}",
        seed=config.seed,
        step=step,
        total=total,
    )


def unexpected(model: Model, config: TrainConfig, missing: Iterable[str]) -> list[str]:
    """What a user may not expect of these settings; `missing` are callbacks that were not given again."""
    found = []
    if config.accumulate > 1 and batch_statistics(model):
        found.append(
            f"accumulate={config.accumulate}: batch normalisation sees each micro-batch of "
            f"{_sizes(config)} by itself, not the batch of {config.batch}"
        )
    names = ", ".join(sorted(missing))
    if names:
        found.append(f"callbacks that are not asked any more, because they were not given again: {names}")
    return found


def _sizes(config: TrainConfig) -> str:
    """How many examples a micro-batch has."""
    least, larger = divmod(config.batch, config.accumulate)
    return f"{least} or {least + 1}" if larger else str(least)


def check_batch(model: Model, config: TrainConfig) -> None:
    """Refuse batches, or parts of them that are taken one after another, of too few examples for this model."""
    found, least = config.batch // config.accumulate, model.least_batch
    if not found or found >= least:  # none at all are refused for every model alike
        return
    parts = f", accumulate={config.accumulate}" if config.accumulate > 1 else ""
    raise ArgumentError(
        f"batch={config.batch}{parts}: {models.title(model)} learns from sets of {least} examples or more",
        remedy=f"use batch={max(least * config.accumulate, 64)} or more",
    )


def check_space(path: Path, model: Model, config: TrainConfig, have: int = 0) -> None:
    """Refuse to start a run whose state does not fit into memory, or whose checkpoints not on the disk.

    `have` of the checkpoints are there already.
    """
    one = tree.nbytes(jax.eval_shape(lambda: initial_state(model, config)))
    if one > (there := machine.memory()):
        raise ArgumentError(
            f"weights and optimiser of this run take {memory_size(one)}; there are {memory_size(there)} of memory",
            remedy="train a smaller model",
        )
    needed = max(config.keep + 2 - have, 1) * one + (16 << 20)
    free = free_bytes(path)
    if free < needed:
        raise DiskError(
            f"{path} has {free / 1e6:,.0f} MB free; the checkpoints of this run need about {needed / 1e6:,.0f} MB",
            remedy="free some space or choose another folder with runs=DIR",
        )


__all__ = ["check_batch", "check_space", "described", "started", "unexpected"]
