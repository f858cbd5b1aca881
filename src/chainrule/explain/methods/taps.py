"""What flows through the layers of any model: inputs, outputs and gradients of every affine layer, by name.

Nothing has to be prepared in the model. Each dense layer or convolution found in it is wrapped for the time of one
call and notes what goes in and comes out. The input of a layer is what the layers before it made, after
normalisation, nonlinearity and dropout; the output is what the next nonlinearity will see. Values change by nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Scalar
from chainrule.nn import Conv, ConvTranspose, Linear

M = TypeVar("M")
_KINDS = (Linear, Conv, ConvTranspose)


class Flow(NamedTuple):
    """What passed one layer."""

    input: Array
    output: Array


@final
@dataclass(eq=False)
class _Notes:
    """What the wrapped layers write down, and what they add to their outputs."""

    seen: dict[str, Flow] = field(default_factory=dict)
    shifts: Mapping[str, Array] = field(default_factory=dict)


@final
class _Tapped(eqx.Module):
    """A layer that takes notes."""

    layer: Any
    name: str = eqx.field(static=True)
    notes: _Notes = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        out = self.layer(x)
        calls = sum(label.partition(", call ")[0] == self.name for label in self.notes.seen)
        label = f"{self.name}, call {calls + 1}" if calls else self.name
        if label in self.notes.shifts:
            out = out + self.notes.shifts[label]
        self.notes.seen[label] = Flow(x, out)
        return out


def layers(model: Any) -> list[str]:
    """The names of the affine layers of a model.

    >>> import chainrule as cr
    >>> layers(cr.models.build("mlp", cr.data.load("moons"), width=8))
    ['blocks.0.linear', 'blocks.1.linear', 'head']
    """
    found = jax.tree_util.tree_leaves_with_path(model, is_leaf=_is_layer)
    return [_name(path) for path, leaf in found if _is_layer(leaf)]


def observe(model: M, call: Callable[[M], Any]) -> dict[str, Flow]:
    """What flows through every layer while `call(model)` runs, in the order in which the layers are called."""
    return observer(model, call)(model)


def observer(model: M, call: Callable[[M], Any]) -> Callable[[M], dict[str, Flow]]:
    """The same for many models of one structure, such as one model in the course of its training: compiled once."""
    order: list[str] = []
    compiled = jax.jit(lambda arrays: _noted(arrays, model, call, {}, order)[1])

    def look(model: M) -> dict[str, Flow]:
        flows = _safely(compiled, eqx.filter(model, eqx.is_array))
        return {name: flows[name] for name in order}

    return look


def gradients(model: M, loss: Callable[[M], Scalar]) -> dict[str, tuple[Flow, Array]]:
    """The same for a loss, with its derivative with respect to the output of every layer."""
    arrays = eqx.filter(model, eqx.is_array)
    order: list[str] = []
    shapes = _safely(lambda: jax.eval_shape(lambda a: _noted(a, model, loss, {}, order)[1], arrays))
    zeros = {name: jnp.zeros(flow.output.shape, flow.output.dtype) for name, flow in shapes.items()}

    def shifted(shifts: Mapping[str, Array], arrays: Any) -> tuple[Scalar, dict[str, Flow]]:
        return _noted(arrays, model, loss, shifts, [])

    slopes, flows = jax.jit(jax.grad(shifted, has_aux=True))(zeros, arrays)
    return {name: (flows[name], slopes[name]) for name in order}


def _noted(
    arrays: Any, model: Any, call: Callable[[Any], Any], shifts: Mapping[str, Array], order: list[str]
) -> tuple[Any, dict[str, Flow]]:
    """The result of the call and the notes; `order` receives their names, because compiled functions sort them."""
    whole = eqx.combine(arrays, eqx.filter(model, eqx.is_array, inverse=True))
    notes = _Notes(shifts=shifts)
    wrapped = jax.tree_util.tree_map_with_path(
        lambda path, leaf: _Tapped(leaf, _name(path), notes) if _is_layer(leaf) else leaf,
        whole,
        is_leaf=_is_layer,
    )
    result = call(wrapped)
    if not notes.seen:
        raise CapabilityError(
            f"{type(model).__name__} called none of its layers",
            remedy="it needs dense layers or convolutions of chainrule.nn",
        )
    order[:] = notes.seen
    return result, notes.seen


def _safely(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except jax.errors.UnexpectedTracerError:
        raise CapabilityError(
            "a layer is called inside a loop or a batched call of its own and cannot be watched",
            remedy="unroll the loop, or watch the model around it",
        ) from None


def _is_layer(node: Any) -> bool:
    return isinstance(node, _KINDS)


def _name(path: Any) -> str:
    parts = [str(getattr(part, "name", getattr(part, "idx", getattr(part, "key", part)))) for part in path]
    return ".".join(parts) or "layer"


__all__ = ["Flow", "gradients", "layers", "observe", "observer"]
