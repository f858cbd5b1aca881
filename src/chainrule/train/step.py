"""The compiled training step: several optimiser steps in one call, for any model and any number of parts.

`Stepper` turns a model, its settings and its data into one compiled function that runs a *given number* of steps in a
loop on the device: the number is an argument, not a constant, so one program serves every call of a run and a
resumed run repeats the same arithmetic bit for bit, however the calls fall. Buffers are donated, batches are cut
from data on the device, per-step metrics come back once per call. A step that meets a value that is not finite leaves
the state as it was and ends the loop.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random, tree
from chainrule.core.compiling import compiled_bytes, compiler_options
from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.data.batches import Batch, Batches
from chainrule.data.splits import Split
from chainrule.models.protocol import HasParts, Model, Part
from chainrule.nn import lora
from chainrule.train import adversary, augmentation, freezing
from chainrule.train.adapters import attached
from chainrule.train.anchoring import PENALTIES, AnchorPoint, like
from chainrule.train.averaging import averaged, distance
from chainrule.train.config import TrainConfig
from chainrule.train.feeding import check_feeding
from chainrule.train.layer_rates import layer_rates, waiting
from chainrule.train.loss_scaling import rescaled, scaled_gradient
from chainrule.train.micro_batches import accumulated
from chainrule.train.objectives import trained_parts
from chainrule.train.optimizers import (
    SEARCHING,
    check_groups,
    check_method,
    check_parts,
    clip_rate,
    for_groups,
    for_part,
    optimizer,
    penalty,
)
from chainrule.train.state import State, trainable

LearningRate = Callable[[Array], Any]
"""Step to factor of the peak rate."""
Mover = Callable[[tuple[Tree, Tree]], tuple[Tree, Tree, dict[str, Array]]]
"""From arrays and optimiser state to both after all moves of a part in a step, and the numbers of the last move."""


@final
class Stepper:
    """Compiles and runs many optimiser steps at once."""

    def __init__(
        self,
        model: Model,
        config: TrainConfig,
        split: Split,
        rate: LearningRate,
        *,
        resident: bool,
        most: int,
        momentum: LearningRate | None = None,
        total: int | None = None,
        anchor: AnchorPoint | None = None,
        teacher: Model | None = None,
    ) -> None:
        """`total` is the length of the run, for losses that change over it; without, they are as at its end."""
        self.config = config
        self.total = total
        self.momentum = momentum
        """Step to the momentum of that step, where it moves."""
        self.split = split
        self.rate = rate
        self.most = most
        self.anchor = anchor
        self.parts, self.evaluated = trained_parts(model, config, split, teacher)
        """The parts with the losses they minimise, and the loss of the whole on held-out examples."""
        augmentation.check(config.augment, split, model)
        adversary.check(config.adversary, split, model)
        check_parts(config.parts, [part.name for part in self.parts])
        self.single = sum(part.repeat for part in self.parts) == 1
        """Whether a step is one move, made only if it is finite; several moves have to be taken back together."""
        settings = [for_part(config.optimizer, config.parts, part.name) for part in self.parts]
        check_method(config, settings, len(split))
        self.settings = settings
        self.peaks = [s.lr for s in settings]
        self.searches = [s.name in SEARCHING for s in settings]
        self.lowerable = trainable(model, self.parts)
        """True for the arrays that may lose digits: parameters, frozen or not."""
        model = attached(model, config)
        freezing.check(model, config)
        self.frozen = freezing.frozen(model, config)
        self.trainable = trainable(model, self.parts, config)
        """True for the arrays that gradients move."""
        self.optimizers = []
        self.groups = [for_groups(own, config.groups) for own in settings]
        for part, own, groups in zip(self.parts, settings, self.groups, strict=True):
            owned = eqx.filter(part.where(model), part.where(self.trainable))
            check_groups(own, groups, tree.names(owned))
            self.optimizers.append(optimizer(own, groups))
        shuffle = config.shuffle and not split.streams
        classes = np.asarray(split.arrays["y"]) if config.balanced else None
        self.batches = Batches(len(split), config.batch, config.seed, shuffle, classes, config.drop_last)
        self.layer_rates = layer_rates(model, config, self.batches.per_epoch / config.batch)
        """Step to the factor of each array's rate, where layers learn at rates of their own."""
        self.key = random.key(config.seed, "train")
        self.static = eqx.filter(freezing.stilled(model, config), eqx.is_array, inverse=True)
        kept = resident and not split.mapped
        self.resident = {name: jnp.asarray(a) for name, a in split.arrays.items()} if kept else None
        check_feeding(split, config, kept)
        self._compiled: jax.stages.Compiled | None = None
        self._ahead: tuple[int, int, list[Any]] = (0, 0, [])
        """First step, number of steps and contents of the feed that was made in advance."""

    def compile(self, state: State) -> None:
        """Compile the loop for states of this shape."""
        example = self.feed(self.batches, 0, 1)
        jitted = jax.jit(self.steps, donate_argnums=1)
        lowered = jitted.lower(self.key, state, self.resident, example, np.int32(1))
        self._compiled = lowered.compile(compiler_options=compiler_options())

    @property
    def nbytes(self) -> int:
        """Bytes the compiled loop takes on its device: data, state, feeds, metrics and all that lies between."""
        assert self._compiled is not None, "compile first"
        return compiled_bytes(self._compiled)

    def run(self, state: State, first: int, count: int) -> tuple[State, dict[str, np.ndarray], int]:
        """Run steps `first` to `first + count - 1`; `state` is used up.

        Returns the new state, one array per metric (NaN in steps in which its part rested), and how many steps were
        done: fewer than `count` when a value was not finite, in which case the state is the one before that step.
        """
        assert self._compiled is not None, "compile first"
        start, length, feeds = self._ahead
        if start != first or length < count:
            feeds = self.feed(self.batches, first, count)
        state, metrics, done = self._compiled(self.key, state, self.resident, feeds, np.int32(count))
        # The host gets the next call ready while the device works; that call may be a little longer than this one.
        start, length = first + count, min(self.most, count + count // 4 + 1)
        self._ahead = (start, length, self.feed(self.batches, start, length))
        finished = int(done)
        return state, {name: np.asarray(values)[:finished] for name, values in metrics.items()}, finished

    def model(self, state: State) -> Model:
        """The model of a state as it is judged: averaged weights where training keeps them, adapters merged."""
        arrays = state.model if state.ema is None else state.ema
        merged: Model = lora.merged(eqx.combine(arrays, self.static))
        return merged

    def parts_at(self, step: Any) -> Sequence[Part]:
        """The parts with the losses they minimise in a step."""
        progress = jnp.ones(()) if self.total is None else jnp.asarray(step / self.total)
        return [part.at(progress) for part in self.parts]

    def batch_at(self, step: int, part: int = 0) -> Batch:
        """The first batch a part sees in a step, on the host."""
        index = self.batches.indices(step * self.parts[part].repeat, 1)[0]
        return self.split.batch(index)

    def feed(self, batches: Batches, first: int, count: int) -> list[Any]:
        """For each part: example numbers (data on the device) or batches (data streamed), padded to `most` steps."""
        feeds = []
        for part in self.parts:
            index = batches.indices(first * part.repeat, count * part.repeat)
            index = np.resize(index, (self.most * part.repeat, self.config.batch))
            index = index.reshape(self.most, part.repeat, self.config.batch)
            if self.resident is not None:
                feeds.append(index)
            else:
                flat = self.split.batch(index.ravel())
                feeds.append(jax.tree.map(lambda a, shape=index.shape: a.reshape(*shape, *a.shape[1:]), flat))
        return feeds

    def _fetch(
        self, resident: Mapping[str, Array] | None, feed: Any, i: Array, repeat: int | Array, key: Key
    ) -> Batch:
        chosen = jax.tree.map(lambda a: jax.lax.dynamic_index_in_dim(a, i, keepdims=False)[repeat], feed)
        if resident is None:
            return chosen
        return self.split.fresh(resident, chosen, random.named(key, "examples"))

    def steps(
        self, key: Key, state: State, resident: Mapping[str, Array] | None, feeds: Sequence[Any], count: Array
    ) -> tuple[State, dict[str, Array], Array]:
        """The function that is compiled: new state, metrics of every step and how many steps were done."""
        # Traced once, for the names of its metrics, and then put into the loop.
        step = jax.jit(self._step, inline=True)
        start = jnp.zeros((), jnp.int32)
        _, seen, _ = jax.eval_shape(step, key, state, resident, feeds, start)
        buffers = {name: jnp.zeros((self.most,), jnp.float32) for name in seen}

        def unfinished(carry: tuple[State, dict[str, Array], Array, Array]) -> Array:
            _, _, i, finite = carry
            return (i < count) & finite

        def body(
            carry: tuple[State, dict[str, Array], Array, Array],
        ) -> tuple[State, dict[str, Array], Array, Array]:
            old, buffers, i, _ = carry
            new, metrics, finite = step(key, old, resident, feeds, i)
            buffers = {name: b.at[i].set(metrics[name]) for name, b in buffers.items()}
            return new, buffers, i + finite, finite

        before = (state, buffers, start, jnp.ones((), bool))
        state, buffers, done, _ = jax.lax.while_loop(unfinished, body, before)
        return state, buffers, done

    def _step(
        self, key: Key, state: State, resident: Mapping[str, Array] | None, feeds: Sequence[Any], i: Array
    ) -> tuple[State, dict[str, Array], Array]:
        model = eqx.combine(state.model, self.static)
        key = random.at(key, state.step)
        optimizers = dict(state.optimizers)
        metrics: dict[str, Array] = {}
        finite = jnp.ones((), bool)
        for number, (part, feed) in enumerate(zip(self.parts_at(state.step), feeds, strict=True)):
            move = self._mover(number, part, feed, i, key, state, resident)
            before = (eqx.filter(model, eqx.is_array), optimizers[part.name])
            if part.every == 1:
                arrays, optimizers[part.name], seen = move(before)
                rests = jnp.zeros((), bool)
            else:
                rests = state.step % part.every != 0
                nothing = {name: jnp.full((), jnp.nan) for name in jax.eval_shape(move, before)[2]}
                arrays, optimizers[part.name], seen = jax.lax.cond(
                    rests, lambda carry, nothing=nothing: (*carry, nothing), move, before
                )
            model = eqx.combine(arrays, self.static)
            finite &= rests | (jnp.isfinite(seen["loss"]) & jnp.isfinite(seen["grad_norm"]))
            prefix = "" if len(self.parts) == 1 else f"{part.name}."
            metrics |= {prefix + name: value for name, value in seen.items()}
        if isinstance(model, HasParts) and len(self.parts) > 1:
            metrics["loss"] = model.step_loss(metrics)
        arrays = eqx.filter(model, eqx.is_array)
        ema = (
            None
            if state.ema is None
            else averaged(self.config, state.ema, arrays, optimizers, state.step, finite)
        )
        if ema is not None and len(self.parts) > 1:
            metrics["ema_distance"] = distance(arrays, ema)
        new = State(state.step + finite, arrays, optimizers, ema, state.factor, state.scaling)
        if not self.single:
            new = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, state)
        if state.scaling is None:
            return new, metrics, finite
        return rescaled(new, state, metrics, finite)

    def _mover(
        self, number: int, part: Part, feed: Any, i: Array, key: Key, state: State, resident: Any
    ) -> Mover:
        factor = jnp.asarray(self.rate(state.step)) * state.factor
        rate = jnp.ones(()) if self.searches[number] else self.peaks[number] * factor
        momentum = None if self.momentum is None else self.momentum(state.step)
        layered = None if self.layer_rates is None else part.where(self.layer_rates(state.step))
        scale = None if state.scaling is None else state.scaling.scale

        def once(carry: tuple[Tree, Tree], r: int | Array) -> tuple[tuple[Tree, Tree], dict[str, Array]]:
            part_key = random.at(random.named(key, part.name), r)
            batch = self._fetch(resident, feed, i, r, part_key)
            arrays, optimizer_state, seen = self._move(
                *(carry[0], number, part, carry[1], batch, part_key, rate, momentum, scale, layered)
            )
            return (arrays, optimizer_state), {n: jnp.asarray(v, jnp.float32) for n, v in seen.items()}

        def move(carry: tuple[Tree, Tree]) -> tuple[Tree, Tree, dict[str, Array]]:
            if part.repeat == 1:
                carry, seen = once(carry, 0)
                return *carry, seen
            # Compiled once, however many moves there are.
            carry, every = jax.lax.scan(once, carry, jnp.arange(part.repeat))
            return *carry, {name: values[-1] for name, values in every.items()}

        return move

    def _move(
        self,
        arrays: Tree,
        number: int,
        part: Part,
        optimizer_state: Tree,
        batch: Batch,
        key: Key,
        rate: Array,
        momentum: Array | None,
        scale: Array | None = None,
        layered: Tree = None,
    ) -> tuple[Tree, Tree, dict[str, Array]]:
        """One optimiser step of one part: arrays and optimiser state after it, and numbers worth watching."""
        model = eqx.combine(arrays, self.static)
        loss, metrics, moved, grads = self.gradient(model, part, batch, key, scale)
        if layered is not None and self.config.unfreeze:
            moved = eqx.tree_at(part.where, moved, waiting(part.where(model), part.where(moved), layered))
        extra: dict[str, Any] = {"rate": rate, "momentum": momentum}
        if self.searches[number]:
            objective = self._objective(model, part, batch, key)
            extra = {"value": loss, "grad": grads, "value_fn": lambda owned: objective(owned)[0]}
        # The penalty is shown by itself, so that the loss can be compared with that of validation.
        shown = loss - sum((metrics[name] for name in PENALTIES if name in metrics), start=jnp.zeros(()))
        seen = {"loss": shown, **metrics, "grad_norm": tree.norm(grads), "lr": rate}
        seen |= clip_rate(self.settings[number], grads)

        def update(before: tuple[Tree, Tree]) -> tuple[Tree, Tree]:
            owned = eqx.filter(part.where(model), part.where(self.trainable))
            updates, optimizer_state = self.optimizers[number].update(grads, before[1], owned, **extra)
            if layered is not None:
                updates = jax.tree.map(lambda u, own: own * u, updates, like(updates, layered))
            updates = jax.tree.map(lambda u: (rate * u).astype(u.dtype), updates)
            if not self.single:
                seen["update_norm"] = tree.norm(updates)
            after = part.ended(eqx.apply_updates(part.where(moved), updates), part.where(self.trainable))
            return eqx.filter(eqx.tree_at(part.where, moved, after), eqx.is_array), optimizer_state

        before = (arrays, optimizer_state)
        if not self.single:
            return *update(before), seen
        # An update that is not made needs nothing to go back to. To choose between old and new values afterwards
        # would cost a copy of the optimiser's state in every step.
        finite = jnp.isfinite(loss) & jnp.isfinite(seen["grad_norm"])
        return *jax.lax.cond(finite, update, lambda unchanged: unchanged, before), seen

    def gradient(
        self, model: Model, part: Part, batch: Batch, key: Key, scale: Array | None = None
    ) -> tuple[Scalar, dict[str, Array], Model, Tree]:
        """Loss, metrics, model with moved state, and gradient of the part's arrays; averaged over micro-batches.

        A `scale` multiplies the loss on the way back and divides the gradient; it changes nothing but rounding.
        """
        pieces = self.config.accumulate
        if pieces == 1:
            return self._gradient_once(model, part, batch, key, scale)

        def once(arrays: Tree, number: Array, piece: Batch) -> tuple[Scalar, dict[str, Array], Tree, Tree]:
            model = eqx.combine(arrays, self.static)
            loss, metrics, moved, grads = self._gradient_once(
                model, part, piece, random.at(key, number), scale
            )
            return loss, metrics, eqx.filter(moved, eqx.is_array), grads

        zeros = jax.tree.map(jnp.zeros_like, eqx.filter(part.where(model), part.where(self.trainable)))
        arrays = eqx.filter(model, eqx.is_array)
        loss, metrics, arrays, grads = accumulated(once, arrays, zeros, batch, pieces)
        return loss, metrics, eqx.combine(arrays, self.static), grads

    def _gradient_once(
        self, model: Model, part: Part, batch: Batch, key: Key, scale: Array | None
    ) -> tuple[Scalar, dict[str, Array], Model, Tree]:
        owned = eqx.filter(part.where(model), part.where(self.trainable))
        objective = self._objective(model, part, batch, key)
        if scale is None:
            (loss, (metrics, arrays)), grads = jax.value_and_grad(objective, has_aux=True)(owned)
        else:
            loss, (metrics, arrays), grads = scaled_gradient(objective, owned, scale)
        # Lowered parameters come back through `moved`; training keeps its own.
        kept = jax.tree.map(
            lambda new, old: new if new.dtype == old.dtype else old, arrays, eqx.filter(model, eqx.is_array)
        )
        return loss, metrics, eqx.combine(kept, self.static), grads

    def _objective(
        self, model: Model, part: Part, batch: Batch, key: Key
    ) -> Callable[[Tree], tuple[Scalar, tuple[dict[str, Array], Tree]]]:
        """The loss of a part as a function of its parameters, with metrics and moved state beside it."""
        number = [one.name for one in self.parts].index(part.name)
        rest = eqx.filter(part.where(model), part.where(self.trainable), inverse=True)
        batch = augmentation.augmented(batch, key, self.config.augment, model)
        threat = self.config.adversary
        both = adversary.attacked(batch, key, threat, self.split, self._lowered(model), part)

        def objective(owned: Tree) -> tuple[Scalar, tuple[dict[str, Array], Tree]]:
            whole = self._lowered(eqx.tree_at(part.where, model, eqx.combine(owned, rest)))
            # The batch keeps its digits: layers compute in the type of their matrices, losses in float32.
            loss, metrics, moved = both.loss(whole, part, key, threat)
            loss, seen = loss.astype(jnp.float32), dict(metrics)
            l2 = penalty(self.settings[number], self.groups[number], owned)
            paid = {} if l2 is None else {"l2_penalty": l2}
            if self.anchor is not None:
                paid["anchor_penalty"] = self.anchor.penalty(self.config.anchor.strength, part, owned)
            for name, value in paid.items():
                loss, seen[name] = loss + value, value
            moved = lora.apart(model, moved)
            # What is frozen stays, also where a rule would move it.
            moved = jax.tree.map(lambda still, old, new: old if still else new, self.frozen, model, moved)
            return loss, (seen, eqx.filter(moved, eqx.is_array))

        return objective

    def _lowered(self, model: Model) -> Model:
        """The model with its adapters merged, in the type of the computation."""
        low, kept = eqx.partition(lora.merged(model), self.lowerable)
        return eqx.combine(tree.lowered(low, jnp.dtype(self.config.precision)), kept)


__all__ = ["LearningRate", "Stepper"]
