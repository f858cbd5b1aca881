"""State that training moves by rule, losses that change over a run, parts, and algorithms of a model's own."""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import tree
from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.models.protocol.model import Metrics, Model


class HasState(Model):
    """Carries arrays that training moves by rule instead of by gradient, such as running averages."""

    @abc.abstractmethod
    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The loss, its metrics, and the same model with its state moved on by this batch."""

    @abc.abstractmethod
    def state(self) -> Sequence[Tree]:
        """The arrays that are moved by rule, or layers that hold nothing else: a selector as for `equinox.tree_at`.

        Training takes no gradient for them, does not decay them and keeps them in single precision. An array that is
        not selected is a parameter. The choice depends on the structure of the model, never on values or types of its
        leaves: it is asked of a tree of the same structure whose leaves are numbers.
        """

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Default: the loss alone."""
        loss, metrics, _ = self.loss_and_state(batch, key)
        return loss, metrics


class HasBatchMoments(HasState):
    """Normalises by the moments of a batch while it learns, and by averages of them ever after."""

    @property
    @abc.abstractmethod
    def couples_examples(self) -> bool:
        """Whether it does so under its settings: then a batch of one example has nothing to teach."""

    @abc.abstractmethod
    def with_moments_of(self, split: Split) -> Self:
        """The same model with the moments of all these examples, those of training, in place of averages."""


class HasAnnealedLoss(Model):
    """Minimises a loss that changes over a run, as with a weight that is raised at first."""

    @abc.abstractmethod
    def loss_at(self, batch: Batch, key: Key, progress: Scalar | float) -> tuple[Scalar, Metrics]:
        """The loss when this share of the run's steps is done, from 0 to 1."""

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """The loss at the end of a run, by which checkpoints are compared."""
        return self.loss_at(batch, key, 1.0)


class CanAdapt(Model):
    """Learns from examples of another domain, without their targets, beside those it is to predict."""

    @abc.abstractmethod
    def features(self, x: Array) -> Array:
        """What it makes alike in both domains: features (batch, width), in inference mode."""


class NeedsSchema(Model):
    """Learns only from the data what its outputs mean."""

    @abc.abstractmethod
    def bound(self, schema: Schema) -> Self:
        """The same model for data of this schema; raises where the two do not fit."""


class HasOwnTraining(Model):
    """Learns from all training examples at once, by an algorithm of its own: a closed form, EM, a solver.

    A step of training is one iteration of it, and a run ends when it has converged. All that an iteration needs to know
    of those before it lies in the arrays of the model; what is no parameter among them is of integers or booleans.
    `loss` is what the iterations lower, so that they can be watched and compared with gradients.
    """

    @abc.abstractmethod
    def iterate(self, examples: Batch, key: Key) -> tuple[Self, Metrics]:
        """The model after one more iteration, and numbers worth watching.

        `examples` are all of them, on the host; `key` is that of this iteration. It runs outside of compiled functions,
        and compiles, or computes in double precision, what it likes to. The metrics hold the `loss` before it.
        """

    @property
    @abc.abstractmethod
    def converged(self) -> bool:
        """Whether further iterations would change nothing that matters: after a closed form, at once."""


M = TypeVar("M", bound=Model)


@final
@dataclass(frozen=True)
class Part(Generic[M]):
    """One part of a model: the arrays it owns, what it minimises, and how often it moves.

    A step lets every part move in order; each has its own optimiser. A generator that moves once for five moves of
    its critic is `Part("critic", ..., repeat=5)` and `Part("generator", ...)`.
    """

    name: str
    where: Callable[[M], Tree]
    """The sub-tree this part owns, e.g. `lambda model: model.critic`."""
    loss: Callable[[M, Batch, Key], tuple[Scalar, Metrics, M]]
    """What it minimises: the loss, its metrics, and the model with its state moved on (as it came, without any)."""
    repeat: int = 1
    """Moves per step, each on a fresh batch."""
    every: int = 1
    """Moves only in steps divisible by this."""
    state: Callable[[M], Sequence[Tree]] = lambda model: ()
    """Arrays of the model that the loss of this part moves by rule; see `HasState.state`."""
    loss_at: Callable[[M, Batch, Key, Scalar], tuple[Scalar, Metrics, M]] | None = None
    """The loss at a share of the run's steps, where it changes over a run; `loss` is that at the end."""
    counted: bool = True
    """Whether its loss adds to that of the step; of parts that follow one loss, one counts."""
    project: Callable[[Tree], Tree] = lambda owned: owned
    """Where every move of its parameters ends: brings them back to the set they belong to, such as a box."""

    def at(self, progress: Scalar) -> "Part[M]":
        """The part when this share of the run's steps is done."""
        changing = self.loss_at
        if changing is None:
            return self
        return replace(self, loss=lambda model, batch, key: changing(model, batch, key, progress))

    def ended(self, owned: Tree, trained: Tree) -> Tree:
        """What it owns after a move, brought back to where it belongs; arrays that are not trained stay."""
        return jax.tree.map(
            lambda moves, end, free: end if moves else free, trained, self.project(owned), owned
        )

    def moved_by_rule(self, model: M) -> Tree:
        """A tree of booleans: true for the arrays of the model that the loss of this part moves by rule."""
        leaves, structure = jax.tree.flatten(model)
        numbered = jax.tree.unflatten(structure, range(len(leaves)))
        chosen = set(jax.tree.leaves(self.state(numbered)))
        return jax.tree.unflatten(structure, [number in chosen for number in range(len(leaves))])


class HasParts(Model):
    """Is trained in several parts with losses of their own."""

    @abc.abstractmethod
    def parts(self) -> Sequence[Part[Any]]:
        """The parts, in the order in which they move."""

    def step_loss(self, metrics: Mapping[str, Array]) -> Array:
        """Default: a step is shown by the sum of the losses of the parts that count.

        `metrics` holds the numbers of all parts, as `generator.loss`. The losses of a game say nothing of its progress,
        and something else should stand there.
        """
        counted = [metrics[f"{part.name}.loss"] for part in self.parts() if part.counted]
        return sum(counted, start=jnp.zeros(()))


def parts_of(model: Model) -> Sequence[Part[Any]]:
    """The parts of any model; one that minimises a single loss is its own only part."""
    if isinstance(model, HasParts):
        return model.parts()
    if isinstance(model, HasState):
        return [
            Part(
                "model",
                lambda model: model,
                lambda model, batch, key: model.loss_and_state(batch, key),
                state=lambda model: model.state(),
            )
        ]
    part: Part[Any] = Part(
        "model", lambda model: model, lambda model, batch, key: (*model.loss(batch, key), model)
    )
    if isinstance(model, HasAnnealedLoss):
        part = replace(
            part,
            loss_at=lambda model, batch, key, progress: (*model.loss_at(batch, key, progress), model),
        )
    return [part]


def parameter_count(model: Model) -> int:
    """How many numbers a model learns; what is moved by rule, such as running averages, is not learned."""
    moved = jax.tree.map(lambda *marks: any(marks), *(part.moved_by_rule(model) for part in parts_of(model)))
    return tree.size(eqx.filter(eqx.filter(model, moved, inverse=True), eqx.is_inexact_array))


__all__ = [
    "CanAdapt",
    "HasAnnealedLoss",
    "HasBatchMoments",
    "HasOwnTraining",
    "HasParts",
    "HasState",
    "NeedsSchema",
    "Part",
    "parameter_count",
    "parts_of",
]
