"""Training by an algorithm of the model's own: every step is one iteration of it over all training examples.

`Iterations` is to such a model what `Stepper` is to one that follows gradients, and the trainer asks both the same.
What only gradients need, such as a batch or a learning rate, is refused here when it is given.
"""

from collections.abc import Mapping
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule import models
from chainrule.core import random, tree
from chainrule.core.errors import CapabilityError
from chainrule.data.dataset import Data
from chainrule.data.splits import Split
from chainrule.models.protocol import HasOwnTraining, Model
from chainrule.train.config import TrainConfig
from chainrule.train.evaluation import own_loss
from chainrule.train.state import State

_OF_USE = {
    *("steps", "seed", "minutes"),
    *("log_every", "eval_every", "eval_examples", "save_every", "keep"),
}


def defaults(model: Model, data: Data) -> Mapping[str, Any]:
    """Training settings that suit a model trained on these data, where they are not the general ones."""
    entry = models.entry_of(model)
    own = entry.training_for(data.schema) if entry else {}
    return {**own, "batch": len(data.train.apart)} if isinstance(model, HasOwnTraining) else own


def check(model: Model, settings: Mapping[str, Any]) -> None:
    """Refuse training settings that the algorithm of this model has no use for."""
    if not isinstance(model, HasOwnTraining):
        return
    for name, value in settings.items():
        if name not in _OF_USE and value is not None:
            raise CapabilityError(
                f"{name}: {models.title(model)} learns from all examples at once by an algorithm of its own, "
                "which has no use for it",
                remedy=f"leave {name} out; training settings it has: {', '.join(sorted(_OF_USE))}",
            )


def check_gradients(what: str, model: Model) -> None:
    """Refuse to measure something about gradient descent with a model that is trained without it."""
    if isinstance(model, HasOwnTraining):
        raise CapabilityError(
            f"{what}: {models.title(model)} learns by an algorithm of its own, not by gradients",
            remedy="ask for it with a model that is trained by gradients, such as mlp or vae",
        )


@final
class Iterations:
    """Runs iterations of a model's own algorithm."""

    most = 1
    """Iterations in one call: each is seen, logged and, at its marks, saved."""

    def __init__(self, model: HasOwnTraining, config: TrainConfig, split: Split) -> None:
        apart = split.apart
        self.examples = apart.batch(np.arange(len(apart)))
        self.evaluated = own_loss
        self.key = random.key(config.seed, "train")
        self.static = eqx.filter(model, eqx.is_array, inverse=True)
        self.nbytes = tree.nbytes(self.examples) + tree.nbytes(eqx.filter(model, eqx.is_array))
        """Bytes of examples and model; what an algorithm needs besides is its own affair."""

    def compile(self, state: State) -> None:
        """Nothing: an algorithm compiles what it likes to."""

    def run(self, state: State, first: int, count: int) -> tuple[State, dict[str, np.ndarray], int]:
        """Iterations `first` to `first + count - 1`, as `Stepper.run` has it."""
        found: list[Mapping[str, Any]] = []
        for number in range(first, first + count):
            model, metrics = self.model(state).iterate(self.examples, random.at(self.key, number))
            if not np.isfinite(float(metrics["loss"])):
                break
            arrays = eqx.filter(model, eqx.is_array)
            state = State(state.step + 1, arrays, state.optimizers, state.ema, state.factor, state.scaling)
            found.append(metrics)
        names = found[0] if found else ()
        columns = {name: np.array([float(one[name]) for one in found], np.float32) for name in names}
        return state, columns, len(found)

    def converged(self, state: State) -> bool:
        """Whether the algorithm has nothing left to do."""
        return self.model(state).converged

    def model(self, state: State) -> HasOwnTraining:
        """The model of a state."""
        model: HasOwnTraining = eqx.combine(jax.tree.map(jnp.asarray, state.model), self.static)
        return model


__all__ = ["Iterations", "check", "check_gradients", "defaults"]
