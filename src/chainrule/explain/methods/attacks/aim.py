"""What is attacked: a trained run in the units of its data, a model, or a function of your own.

The attack on a run differentiates through the scaling that is stored with it, so that `eps` is in the units of the
data: 0 to 255 for 8-bit images, 0 to 1 for images given as shares, those of the columns for tables. A function that is
not made of JAX operations is called on the host; attacks that need gradients refuse it by name.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from chainrule.core import random
from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError, CapabilityError, suggest
from chainrule.core.types import Array
from chainrule.data import kinds, targets
from chainrule.data.batches import Batch
from chainrule.explain.methods.functions import HostFunction, adapted
from chainrule.explain.methods.raw_rows import raw_rows
from chainrule.models.protocol import CanPredict, HasLogits, HasOutputs, Model
from chainrule.nn.attacks import MEASURES, Bounds, Loss, margin
from chainrule.train import Run

Attacked: TypeAlias = Run | Model | Callable[[Array], Array]
"""A trained run (examples in raw units), a model (in model units), or a function from examples to logits."""
MOST_ROWS = 100_000
"""Training examples that are looked at for the range of columns."""


@final
class OnHost(eqx.Module):
    """A function of NumPy arrays as part of a compiled program; it has no derivative."""

    f: Callable[[Any], Any]
    classes: int = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        """Ask it for all examples at once."""
        shape = jax.ShapeDtypeStruct((len(x), self.classes), x.dtype)
        return jax.pure_callback(lambda x: np.asarray(self.f(np.asarray(x)), x.dtype), shape, x)


@final
class Victim(eqx.Module):
    """What is attacked, as a function of examples in the attacker's units; its arrays are arguments of programs."""

    f: Any
    """A model in inference mode, or a function from examples to logits."""
    shift: Array | None = None
    factor: Array | None = None
    """From data units to those of the model, where the two differ."""
    unit: Array | None = None
    """Data units in one unit of the attacker, where he measures entries by different rules."""
    classes: bool = eqx.field(static=True, default=True)
    """Whether it names one class; otherwise only its own loss can be driven up."""

    def seen(self, x: Array) -> Array:
        """Examples as the model sees them."""
        if self.unit is not None:
            x = x * _beside(self.unit, x)
        if self.factor is None or self.shift is None:
            return x
        return (x - _beside(self.shift, x)) * _beside(self.factor, x)

    def logits(self, x: Array) -> Array:
        """Logits, or logarithms of probabilities where a model has nothing else."""
        x = self.seen(x)
        if isinstance(self.f, HasLogits):
            return self.f.logits(x)
        if isinstance(self.f, CanPredict):
            p = self.f.predict(x)
            return jnp.log(jnp.maximum(p, jnp.finfo(p.dtype).tiny))
        found: Array = self.f(x)
        return found

    def objective(self, y: Array, measure: str, *, targeted: bool) -> "Objective":
        """What an attack drives up: away from the classes `y`, or towards them."""
        sign = -1 if targeted else 1
        if not self.classes:
            own = lambda x: sign * len(x) * self.f.loss(Batch(self.seen(x), y), random.key(0, "attack"))[0]  # noqa: E731
            return Objective(own)

        def joint(x: Array) -> tuple[Array, Array]:
            logits = self.logits(x)
            return sign * MEASURES[measure](logits, y), sign * margin(logits, y)

        return Objective(lambda x: joint(x)[0], joint)

    def fooled(self, x: Array, y: Array, *, targeted: bool) -> Array:
        """Of which examples the class is another one than `y`, or with `targeted` that one."""
        same = self.logits(x).argmax(axis=-1) == y
        return same if targeted else ~same


class Objective(NamedTuple):
    """What an attack drives up; of classifiers also both that and how far the attack got: above zero it has worked."""

    loss: Loss
    joint: Callable[[Array], tuple[Array, Array]] | None = None


class Aim(NamedTuple):
    """What is attacked, and where."""

    victim: Victim
    x: Array
    y: Array
    bounds: Bounds | None


def aimed(
    where: str,
    f: Attacked,
    x: ArrayLike,
    y: ArrayLike | None,
    *,
    bounds: Bounds | None = None,
    targeted: bool = False,
    gradient: bool = True,
) -> Aim:
    """Everything about an attack that is not the attack, checked."""
    array = jnp.asarray(x, jnp.result_type(float))
    victim = victim_of(f)
    if bounds is None and isinstance(f, Run):
        bounds = raw_bounds(f)
    _check_examples(where, array, bounds)
    if not victim.classes:
        if y is None:
            raise ArgumentError(f"{where}(y=None): give the targets; only classes can be predicted instead")
        return Aim(victim, array, jnp.asarray(y), bounds)
    if not isinstance(f, Run | Model):
        victim = _callable(where, victim, array, gradient=gradient)
    count = _class_count(where, victim, array)
    if y is not None:
        classes = jnp.asarray(y if isinstance(y, Array) else _numbered(where, f, np.asarray(y)))
        if classes.shape != array.shape[:1] or not jnp.issubdtype(classes.dtype, jnp.integer):
            raise ArgumentError(
                f"{where}: y has shape {classes.shape} and type {classes.dtype} for {len(array)} examples",
                remedy="give one class number for each example, or None for the predicted ones",
            )
        check_class_numbers(where, "y", classes, count)
    elif targeted:
        raise ArgumentError(
            f"{where}(y=None, targeted=True): towards which class?",
            remedy="give y: the wanted class of each example",
        )
    else:
        classes = victim.logits(array).argmax(axis=-1)
    return Aim(victim, array, classes, bounds)


def _numbered(where: str, f: Attacked, y: np.ndarray) -> np.ndarray:
    """Classes by number, where a run knows them by name."""
    if y.dtype.kind not in "USO":
        return y
    known = list(f.schema.classes) if isinstance(f, Run) else []
    for name in y.ravel().tolist():
        if name not in known:
            raise ArgumentError(
                f"{where}: y holds {name!r}, which is no class{suggest(str(name), known)}",
                remedy=f"classes: {', '.join(known)}" if known else "give classes by number, counted from 0",
            )
    return np.array([known.index(name) for name in y.ravel().tolist()]).reshape(y.shape)


def victim_of(f: Attacked, unit: np.ndarray | None = None) -> Victim:
    """A run, a model or a function as what is attacked."""
    per_unit = None if unit is None else jnp.asarray(unit, jnp.result_type(float))
    if isinstance(f, Run):
        scaling = f.scaling
        shift, factor = (jnp.asarray(v, jnp.result_type(float)) for v in (scaling.shift, scaling.factor))
        one_class = targets.of(f.schema).one_class and isinstance(f.model, CanPredict)
        return Victim(eqx.nn.inference_mode(f.model), shift, factor, per_unit, classes=one_class)
    if isinstance(f, Model):
        one_class = isinstance(f, CanPredict) and _names_a_class(f)
        return Victim(eqx.nn.inference_mode(f), unit=per_unit, classes=one_class)
    return Victim(f, unit=per_unit)


def raw_bounds(run: Run, also: np.ndarray | None = None) -> Bounds:
    """The range of raw values: that of the kind of data, else of every column of the training examples.

    `also` are examples that lie inside whatever the training examples say.
    """
    known = kinds.of(run.schema).raw_range(run.schema)
    if known is not None:
        return known
    part = run.data.train
    rows = raw_rows(run, part, MOST_ROWS).x
    if also is not None:
        rows = np.concatenate([rows, also])
    return rows.min(axis=0).astype(np.float32), rows.max(axis=0).astype(np.float32)


def _names_a_class(model: Model) -> bool:
    """Whether a model without its run predicts classes; one that does not say for what data it is, is taken to."""
    return not isinstance(model, HasOutputs) or targets.of(model.schema).one_class


def _check_examples(where: str, x: Array, bounds: Bounds | None) -> None:
    if x.ndim < 2 or not len(x):
        raise ArgumentError(f"{where}: x has shape {x.shape}", remedy="examples have a leading batch axis")
    if isinstance(x, jax.core.Tracer):
        return
    values = np.asarray(x)
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))[0, 0])
        raise ArgumentError(f"{where}: example {row} of x holds a value that is not finite")
    if bounds is None:
        return
    low, high = (np.asarray(bound, np.float64) for bound in bounds)
    if not (low <= high).all():
        raise ArgumentError(
            f"{where}(bounds={bounds}): the lower bound is above the upper one", remedy="give (low, high)"
        )
    slack = 1e-4 * np.maximum(high - low, 1e-12)
    outside = (values < low - slack) | (values > high + slack)
    if outside.any():
        position = tuple(np.argwhere(outside)[0])
        raise ArgumentError(
            f"{where}: x holds {values[position]:g} in example {position[0]}; entries lie between {low.min():g} and "
            f"{high.max():g}",
            remedy="give examples in data units, or wider bounds=(low, high)",
        )


def _callable(where: str, victim: Victim, x: Array, *, gradient: bool) -> Victim:
    """A function of the user's own as part of a program: as it is, or called on the host."""
    f = adapted(where, victim.f, np.zeros((1, *x.shape[1:]), x.dtype))  # a shape is all that tracing needs
    if isinstance(f, HostFunction):
        if gradient:
            raise CapabilityError(
                f"{where}: f cannot be differentiated, it is not made of JAX operations",
                remedy="attack it by queries alone: explain.square_attack(f, x, y, eps)",
            )
        shape = f(x[:1]).shape
        return eqx.tree_at(lambda v: v.f, victim, OnHost(f, shape[-1] if len(shape) == 2 else 0))
    return victim


def _class_count(where: str, victim: Victim, x: Array) -> int:
    shape = eqx.filter_eval_shape(victim.logits, x).shape
    if len(shape) != 2 or shape[0] != len(x) or shape[1] < 2:
        raise ArgumentError(
            f"{where}: f gives an array of shape {shape} for {len(x)} examples",
            remedy="it must give a logit for each of two or more classes: (batch, classes); one logit z is [0, z]",
        )
    return int(shape[1])


def _beside(value: Array, x: Array) -> Array:
    return value.reshape((1,) * (x.ndim - value.ndim) + value.shape)


__all__ = ["Aim", "Attacked", "Objective", "OnHost", "Victim", "aimed", "raw_bounds", "victim_of"]
