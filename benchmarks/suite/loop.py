"""What the training loop costs: `chainrule.train.fit` against its own step called bare, for growing networks.

The bare forms are written here with JAX and Optax alone and get their batches scaled and on the device beforehand:
`bare call` is one compiled call per step with donated buffers; `bare loop` is a compiled loop over many steps without
any check or metric, the least that anybody could do. Fit adds to it: gathering and scaling batches, finite checks,
gradient norms, metrics, logging. Its evaluations and checkpoints are a case of their own.
"""

import functools
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from benchmarks.harness import Case, Contestant, Growth, Local, Options, Prepared, Report, measure
from benchmarks.workers.protocol import steady
from benchmarks.workloads import (
    BATCH,
    first_losses,
    images,
    operations,
    parameters,
    perceptron,
    settled_steps,
    steady_seconds,
)
from chainrule.core import random
from chainrule.data.batches import Batch, Batches
from chainrule.data.dataset import Data
from chainrule.models.protocol import Model
from chainrule.train import TrainConfig
from chainrule.train.schedules import schedule
from chainrule.train.state import initial_state
from chainrule.train.step import Stepper
from chainrule.train.trainer import MOST_STEPS_PER_CALL

WIDTHS = (64, 128, 256, 512, 1024, 2048)
TARGET_WIDTH = 512
LR = 1e-3
CHECKED_STEPS = 10
STEPS_PER_CALL = 16
NEVER = 10**9
SETTINGS = {
    "batch": BATCH,
    "optimizer": {"name": "adam", "lr": LR, "decay": 0.0},
    "schedule": {"name": "constant"},
}


def run(options: Options) -> Report:
    """Measure every width, and the target width with evaluations and checkpoints."""
    options.chosen([])
    data = images()
    rare = {**SETTINGS, "eval_every": NEVER, "save_every": NEVER}
    cases = [_case(f"width {width}", width, data, rare, options) for width in WIDTHS]
    label = f"width {TARGET_WIDTH}, evaluation and checkpoint every 200 steps"
    cases.append(_case(label, TARGET_WIDTH, data, SETTINGS, options))
    medians = tuple(case.ours.summary.median for case in cases[: len(WIDTHS)])
    growth = (
        Growth(
            "seconds per step of fit",
            "width",
            WIDTHS,
            medians,
            tuple(operations(w) for w in WIDTHS),
        ),
        # Parameters, the two averages of Adam, and gradients.
        Growth(
            "bytes of its compiled program",
            "width",
            WIDTHS,
            tuple(map(program_bytes, WIDTHS)),
            tuple(4 * 4.0 * parameters(w) for w in WIDTHS),
        ),
    )
    return Report(tuple(cases), growth)


def _case(label: str, width: int, data: Data, settings: dict[str, Any], options: Options) -> Case:
    model = perceptron(data, width)
    bare = Bare(model, data)
    contestants: list[Contestant] = [
        Local(
            "fit",
            lambda: Prepared(*first_losses(model, data, CHECKED_STEPS, **settings)),
            lambda: steady_seconds(model, data, settled_steps(operations(width)), **settings),
        ),
        Local("bare call", bare.prepare_calls, lambda: steady(bare.calls)),
        Local("bare loop", bare.prepare_loop, lambda: steady(bare.loops, STEPS_PER_CALL)),
    ]
    return measure(label, contestants, rounds=options.rounds, tolerance=1e-3, watch=options.watch)[0]


def program_bytes(width: int) -> float:
    """What the compiled program of `fit` takes, with hardly any data."""
    data = images(BATCH)
    model = perceptron(data, width)
    config = TrainConfig.parse(**SETTINGS)
    stepper = Stepper(
        model, config, data.train, schedule(config.schedule, 1), resident=True, most=MOST_STEPS_PER_CALL
    )
    stepper.compile(initial_state(model, config))
    return float(stepper.nbytes)


State = tuple[Any, Any]


class Bare:
    """The step by hand: gradient of the model's loss, Optax's Adam, donated buffers, batches on the device."""

    def __init__(self, model: Model, data: Data) -> None:
        arrays, static = eqx.partition(model, eqx.is_array)
        key = random.key(0)
        adam = optax.adam(LR)

        def step(state: State, batch: Batch) -> tuple[State, jax.Array]:
            arrays, averages = state
            loss, grads = jax.value_and_grad(lambda a: eqx.combine(a, static).loss(batch, key)[0])(arrays)
            updates, averages = adam.update(grads, averages)
            return (optax.apply_updates(arrays, updates), averages), loss

        rows = Batches(len(data.train), BATCH, seed=0).indices(0, STEPS_PER_CALL)
        self.batches = [jax.tree.map(jnp.asarray, data.train.batch(r)) for r in rows]
        self.stacked = jax.tree.map(lambda *a: jnp.stack(a), *self.batches)
        self.start = (arrays, adam.init(arrays))
        self.step: Any = jax.jit(step, donate_argnums=0)
        self.loop: Any = jax.jit(functools.partial(jax.lax.scan, step), donate_argnums=0)

    def prepare_calls(self) -> Prepared:
        """Compile one step; losses of the first ones."""
        self.state = jax.tree.map(jnp.array, self.start)
        began = time.perf_counter()
        self.step = self.step.lower(self.state, self.batches[0]).compile()
        compiling = time.perf_counter() - began
        return Prepared([float(loss) for loss in self.calls(CHECKED_STEPS)], compiling)

    def prepare_loop(self) -> Prepared:
        """Compile the loop; losses of the first steps."""
        self.loop_state = jax.tree.map(jnp.array, self.start)
        began = time.perf_counter()
        self.loop = self.loop.lower(self.loop_state, self.stacked).compile()
        compiling = time.perf_counter() - began
        return Prepared([float(loss) for loss in self.loops(STEPS_PER_CALL)[:CHECKED_STEPS]], compiling)

    def calls(self, steps: int) -> list[jax.Array]:
        """Steps with one call each."""
        losses = []
        for number in range(steps):
            self.state, loss = self.step(self.state, self.batches[number % STEPS_PER_CALL])
            losses.append(loss)
        jax.block_until_ready(self.state)
        return losses

    def loops(self, steps: int) -> jax.Array:
        """Steps with `STEPS_PER_CALL` in a call; the losses of the last call."""
        for _ in range(steps // STEPS_PER_CALL):
            self.loop_state, losses = self.loop(self.loop_state, self.stacked)
        jax.block_until_ready(self.loop_state)
        return losses
