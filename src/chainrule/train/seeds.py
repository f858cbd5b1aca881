"""Several seeds of one training in one compiled program.

Models of the same settings have the same shapes whatever their seed, so their states can be stacked and the loop of
steps that `Stepper` compiles can be mapped over them: one program instead of one for each. Every seed has its own
initial weights, batches and noise, the same ones it has when trained alone; one that meets a value that is not finite
stops there, and the others go on.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.compiling import compiler_options
from chainrule.core.errors import ArgumentError
from chainrule.data.splits import Split
from chainrule.models.protocol import Model
from chainrule.train.config import TrainConfig
from chainrule.train.schedules import momentum_cycle, schedule
from chainrule.train.state import State, initial_state
from chainrule.train.step import Stepper


@final
class SeedStepper:
    """Compiles and runs the training steps of several seeds at once; `models` are their starts."""

    def __init__(
        self,
        models: Sequence[Model],
        seeds: Sequence[int],
        config: TrainConfig,
        split: Split,
        *,
        steps: int,
        most: int,
    ) -> None:
        first, *others = models
        shapes = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), eqx.filter(first, eqx.is_array))
        for seed, model in zip(seeds[1:], others, strict=True):
            same = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), eqx.filter(model, eqx.is_array))
            static = [eqx.filter(one, eqx.is_array, inverse=True) for one in (first, model)]
            if same != shapes or not eqx.tree_equal(*static):
                raise ArgumentError(
                    f"seeds={list(seeds)}: the model of seed {seed} has other shapes or settings than that of seed "
                    f"{seeds[0]}",
                    remedy="train them apart",
                )
        self.models = models
        self.stepper = Stepper(
            first,
            config,
            split,
            schedule(config.schedule, steps),
            resident=True,
            most=most,
            momentum=momentum_cycle(config.schedule, steps),
            total=steps,
        )
        self.keys = jnp.stack([random.key(seed, "train") for seed in seeds])
        self.batches = [replace(self.stepper.batches, seed=seed) for seed in seeds]
        self._compiled: jax.stages.Compiled | None = None

    def start(self) -> State:
        """The states before the first step, stacked; compiles the program for them."""
        states = [initial_state(model, self.stepper.config) for model in self.models]
        stacked: State = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        mapped = jax.jit(jax.vmap(self.stepper.steps, in_axes=(0, 0, None, 0, 0)), donate_argnums=1)
        counts = np.ones(len(states), np.int32)
        lowered = mapped.lower(self.keys, stacked, self.stepper.resident, self._feeds(0, 1), counts)
        self._compiled = lowered.compile(compiler_options=compiler_options())
        return stacked

    def run(
        self, states: State, first: int, counts: np.ndarray
    ) -> tuple[State, dict[str, np.ndarray], np.ndarray]:
        """Run `counts` steps of each seed from step `first` on; `states` are used up.

        Returns the new states, each metric as (seeds, steps), and how many steps each seed has done: fewer than it
        should where a value was not finite.
        """
        assert self._compiled is not None, "start first"
        feeds = self._feeds(first, int(counts.max()))
        states, metrics, done = self._compiled(
            self.keys, states, self.stepper.resident, feeds, np.asarray(counts, np.int32)
        )
        return states, {name: np.asarray(values) for name, values in metrics.items()}, np.asarray(done)

    def model(self, states: State, number: int) -> Model:
        """One of the models as it is now: its averaged weights where training keeps them."""
        return self.stepper.model(jax.tree.map(lambda leaf: leaf[number], states))

    def _feeds(self, first: int, count: int) -> list[Any]:
        each = [self.stepper.feed(batches, first, count) for batches in self.batches]
        return [np.stack(parts) for parts in zip(*each, strict=True)]


__all__ = ["SeedStepper"]
