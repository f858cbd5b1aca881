"""Whole trainings as compiled programs: iterations in a loop on the device, many runs in one call.

States always lead with an axis of runs, also for one run alone. The number of iterations is an argument of the compiled
program, not a part of it: one program serves every chunk of a training, however they fall, and a training that was
stopped goes on with the same arithmetic bit for bit.

Accelerators advance all runs together (`jax.vmap`), spread over all of them that this machine has, or half of the runs
at a time where memory does not suffice. A processor takes one after the other on each of its cores: a batch of runs is
compiled into other instructions for each size, so that the last digits of a run, and soon all of them, would depend on
how many run beside it. Taken in turn a run has the bits of a lone one, for a quarter more of time.
"""

import itertools
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.learning.base import Learner
from chainrule.core.compiling import compiled, once
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Tree


class TrainedRuns(NamedTuple):
    """Runs side by side after training."""

    states: Tree
    """Of the learner, with an axis of runs first."""
    metrics: dict[str, np.ndarray]
    """By name, each (runs, iterations)."""


Watcher = Callable[[int, Tree, dict[str, np.ndarray]], None]
"""Called after every chunk: iterations done, states, and the metrics of the chunk."""


def train(
    learner: Learner[Any],
    key: Array,
    steps: int,
    *,
    seeds: int = 1,
    hyper: Tree = None,
    chunk: int | None = None,
    watch: Watcher | None = None,
) -> TrainedRuns:
    """Train for so many steps of the environment, rounded up to whole iterations.

    `key` is one key, of which `seeds` runs get one each, or an array of keys, one for each run. `hyper` has an axis of
    runs first in the numbers that differ between runs. `chunk` iterations are done in one call of the program, a
    hundredth of them unless given.
    """
    iterations = whole_iterations(learner, steps)
    states = start(learner, key, seeds=seeds, hyper=hyper)
    chunk = max(1, iterations // 100) if chunk is None else chunk
    parts, done = [], 0
    while done < iterations:
        count = min(chunk, iterations - done)
        states, metrics = run_iterations(learner, states, count, most=chunk)
        done += count
        parts.append(metrics)
        if watch is not None:
            watch(done, states, metrics)
    return TrainedRuns(states, {name: np.concatenate([p[name] for p in parts], axis=1) for name in parts[0]})


def whole_iterations(learner: Learner[Any], steps: int) -> int:
    """Iterations that take at least so many steps of the environment."""
    if steps < 1:
        raise ArgumentError(f"steps={steps}: at least one step is needed")
    return -(-steps // learner.steps_per_iteration)


def start(learner: Learner[Any], key: Array, *, seeds: int = 1, hyper: Tree = None) -> Tree:
    """States that training begins with, an axis of runs first; see `train`."""
    if seeds < 1:
        raise ArgumentError(f"seeds={seeds}: at least one run is needed")
    keys = jax.random.split(key, seeds) if key.ndim == 0 else key
    runs = keys.shape[0]
    hyper = learner.hyper if hyper is None else hyper
    return once(_started)(learner, keys, jax.tree.map(lambda a: _per_run(a, runs), hyper))


def run_iterations(
    learner: Learner[Any], states: Tree, count: int, *, most: int | None = None
) -> tuple[Tree, dict[str, np.ndarray]]:
    """So many iterations of every run; metrics come back as (runs, iterations).

    Calls with the same `most` (at least `count`) share one compiled program.
    """
    room = count if most is None else most
    if not 1 <= count <= room:
        raise ArgumentError(f"count={count}: between 1 and {room} iterations in one call")
    runs = jax.tree.leaves(states)[0].shape[0]
    number = jnp.asarray(count, jnp.int32)
    if jax.default_backend() == "cpu":
        states, metrics = _on_cores(learner, states, number, room, runs)
    else:
        states, metrics = _in_memory(learner, states, number, room, runs)
    return states, {name: np.asarray(values)[:, :count] for name, values in metrics.items()}


def run_of(states: Tree, index: int) -> Tree:
    """The state of one of several runs, without the axis of runs."""
    return jax.tree.map(lambda a: a[index], states)


def _per_run(number: Any, runs: int) -> Array:
    number = jnp.asarray(number, jnp.float32)
    if number.ndim > 1 or (number.ndim == 1 and number.shape[0] != runs):
        raise ArgumentError(
            f"hyper: numbers of shape {number.shape} for {runs} runs; give one, or one for each"
        )
    return jnp.broadcast_to(number, (runs,))


def _started(learner: Learner[Any], keys: Array, hyper: Tree) -> Tree:
    return jax.vmap(learner.begin)(keys, hyper)


def _in_memory(
    learner: Learner[Any], states: Tree, count: Array, room: int, runs: int
) -> tuple[Tree, dict[str, Array]]:
    """All runs together; where that does not fit into memory, half of them after the other, and says so."""
    states = spread(states, jax.local_devices())
    try:
        done: tuple[Tree, dict[str, Array]] = jax.block_until_ready(_together(learner, states, count, room))
        return done
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error) or runs == 1:
            raise
    half = runs // 2
    warnings.warn(
        f"{runs} agents at once do not fit into memory: {half} and then {runs - half}", stacklevel=3
    )
    parts = [jax.tree.map(lambda a, of=of: a[of], states) for of in (slice(half), slice(half, None))]
    return _joined(
        [
            _in_memory(learner, part, count, room, size)
            for part, size in zip(parts, (half, runs - half), strict=True)
        ]
    )


def spread(states: Tree, devices: Sequence[jax.Device]) -> Tree:
    """Runs on as many of the devices as can have equally many each; they never need anything of each other."""
    runs = jax.tree.leaves(states)[0].shape[0]
    used = max(count for count in range(1, len(devices) + 1) if runs % count == 0)
    if used == 1:
        return states
    mesh = jax.sharding.Mesh(np.array(devices[:used]), ("runs",))
    return jax.device_put(states, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("runs")))


def _on_cores(
    learner: Learner[Any], states: Tree, count: Array, room: int, runs: int
) -> tuple[Tree, dict[str, Array]]:
    lanes = min(runs, os.cpu_count() or 1)
    if lanes == 1:
        return _in_turn(learner, states, count, room, jnp.asarray(runs))
    bounds = [runs * i // lanes for i in range(lanes + 1)]
    parts = [jax.tree.map(lambda a, b=b, e=e: a[b:e], states) for b, e in itertools.pairwise(bounds)]
    with ThreadPoolExecutor(lanes) as pool:
        done = list(pool.map(lambda part: _in_turn(learner, part, count, room, _length(part)), parts))
    return _joined(done)


def _joined(parts: list[tuple[Tree, dict[str, Array]]]) -> tuple[Tree, dict[str, Array]]:
    """States and metrics of all runs, from those of some."""
    joined: tuple[Tree, dict[str, Array]] = jax.tree.map(lambda *a: jnp.concatenate(a), *parts)
    return joined


def _length(states: Tree) -> Array:
    return jnp.asarray(jax.tree.leaves(states)[0].shape[0])


@compiled
def _in_turn(
    learner: Learner[Any], states: Tree, count: Array, room: int, runs: Array
) -> tuple[Tree, dict[str, Array]]:
    def one(i: Array, carry: tuple[Tree, dict[str, Array]]) -> tuple[Tree, dict[str, Array]]:
        states, metrics = carry
        state = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, i, keepdims=False), states)
        done = _iterations(learner.iterate, state, count, room)
        after: tuple[Tree, dict[str, Array]] = jax.tree.map(
            lambda a, x: a.at[i].set(x), (states, metrics), done
        )
        return after

    seen = jax.eval_shape(jax.vmap(learner.iterate), states)[1]
    metrics = {name: jnp.zeros((*s.shape, room), s.dtype) for name, s in seen.items()}
    # `runs` is an argument: a loop that is known to turn once would be taken apart, and compiled into something else.
    return jax.lax.fori_loop(0, runs, one, (states, metrics))


@compiled
def _together(learner: Learner[Any], states: Tree, count: Array, room: int) -> tuple[Tree, dict[str, Array]]:
    return _iterations(jax.vmap(learner.iterate), states, count, room)


def _iterations(
    iterate: Callable[[Tree], tuple[Tree, dict[str, Array]]], state: Tree, count: Array, room: int
) -> tuple[Tree, dict[str, Array]]:
    seen = jax.eval_shape(iterate, state)[1]
    metrics = {name: jnp.full((*s.shape, room), jnp.nan, s.dtype) for name, s in seen.items()}

    def body(i: Array, carry: tuple[Tree, dict[str, Array]]) -> tuple[Tree, dict[str, Array]]:
        state, metrics = carry
        state, seen = iterate(state)
        return state, {name: m.at[..., i].set(seen[name]) for name, m in metrics.items()}

    return jax.lax.fori_loop(0, count, body, (state, metrics))


__all__ = [
    "TrainedRuns",
    "Watcher",
    "run_iterations",
    "run_of",
    "spread",
    "start",
    "train",
    "whole_iterations",
]
