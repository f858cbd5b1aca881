"""Inputs, outputs and gradients of every affine layer of any model, by name.

Nothing has to be prepared in the model. Each dense layer or convolution found in it is wrapped for the time of one
call: the wrapper marks in the program of the call what goes in and comes out, and the program is then run so that it
gives the marked values back beside its result. The input of a layer is what the layers before it made, after
normalisation, nonlinearity and dropout; the output is what the next nonlinearity will see. Values change by nothing.

A layer called at every step of a `lax.scan` has one flow with the steps along its first axis; of blocks that are
stacked and scanned over, every layer has its own.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from chainrule.core.errors import CapabilityError
from chainrule.core.scans import scan_parts
from chainrule.core.types import Array, Int, Scalar
from chainrule.derive.jaxprs.equations import body, closed, inner_programs, is_literal, program_of
from chainrule.nn import Conv, ConvTranspose, Linear

M = TypeVar("M")
_KINDS = (Linear, Conv, ConvTranspose)
_MARK = "chainrule_layer_value"
Position: TypeAlias = tuple[int | None, ...]
"""Where a mark stands in a program: numbers of equations from the outside in, `None` for a step of a loop."""


@runtime_checkable
class Indexed(Protocol):
    """Rows that are cut out by number: an array, or examples that are made when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: np.ndarray, /) -> Any: ...


class Flow(NamedTuple):
    """What passed one layer."""

    input: Array
    output: Array


class _Marked(NamedTuple):
    """A value of a layer: its tag, twice the number of the layer (for an output plus one), and the value.

    Both have an axis for every loop they were met in.
    """

    tag: Array
    value: Array


@final
class _Fed(eqx.Module):
    """A model and what it is fed."""

    model: Any
    x: Array


@final
class _Tapped(eqx.Module):
    """A layer that marks its input and its output."""

    layer: Any
    number: Int[Array, ""]
    """Of the layer: an array, so that stacked blocks still know which of them they are."""

    def __call__(self, x: Array) -> Array:
        return _mark(self.layer(_mark(x, 2 * self.number)), 2 * self.number + 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.layer, name)

    @property  # type: ignore[misc]  # nobody writes it
    def __class__(self) -> Any:
        """That of the layer: a function that asks for one takes what stands for it."""
        return type(self.layer)


def _identity(value: Array, tag: Array) -> Array:
    del tag
    return value


_identity.__name__ = _MARK
_mark = jax.custom_jvp(jax.jit(_identity))


@_mark.defjvp
def _mark_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Any]) -> tuple[Array, Array]:
    """Where a model differentiates its own layers, values are marked and tangents pass."""
    return _mark(*primals), tangents[0]


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
    program, positions = _program(model, call)
    compiled = jax.jit(lambda arrays: _run(program, arrays, {})[1])

    def look(model: M) -> dict[str, Flow]:
        found = compiled(_leaves(model))
        return {name: Flow(*pair) for name, *pair in _named(layers(model), positions, found, found)}

    return look


def layer_inputs(
    model: Any, call: Callable[[Any, Array], Any], x: Indexed, batch: int, only: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """What enters every layer while `call(model, x)` runs on all rows of `x`, `batch` at a time, compiled once.

    Layers that do not see a row for each example are left out, and all but those that `only` names, if it names some.
    """
    size = min(batch, len(x))
    rows = np.resize(np.arange(len(x)), -(-len(x) // size) * size).reshape(-1, size)
    pairs = (_Fed(model, jnp.asarray(x[part])) for part in rows)
    look: Callable[[Any], dict[str, Flow]] | None = None
    found: dict[str, list[np.ndarray]] = {}
    for pair in pairs:
        look = look or observer(pair, lambda pair: call(pair.model, pair.x))
        for name, flow in look(pair).items():
            name = name.removeprefix("model.")
            if len(flow.input) == size and (not only or name in only):
                found.setdefault(name, []).append(np.asarray(flow.input))
    return {name: np.concatenate(parts)[: len(x)] for name, parts in found.items()}


def gradients(model: M, loss: Callable[[M], Scalar]) -> dict[str, tuple[Flow, Array]]:
    """The same for a loss, with its derivative with respect to the output of every layer."""
    program, positions = _program(model, loss)
    leaves = _leaves(model)
    shapes = jax.eval_shape(lambda leaves: _run(program, leaves, {})[1], leaves)
    zeros = {i: jnp.zeros(shapes[i].value.shape, shapes[i].value.dtype) for i in range(1, len(shapes), 2)}

    def shifted(shifts: Mapping[int, Array], leaves: list[Array]) -> tuple[Scalar, list[_Marked]]:
        out, found = _run(program, leaves, shifts)
        return out[0], found

    slopes, found = jax.jit(jax.grad(shifted, has_aux=True))(zeros, leaves)
    sloped = [_Marked(one.tag, slopes.get(i, one.value)) for i, one in enumerate(found)]
    known = {name: Flow(*pair) for name, *pair in _named(layers(model), positions, found, found)}
    return {name: (known[name], slope) for name, _, slope in _named(layers(model), positions, found, sloped)}


# ---------------------------------------------------------------------- programs with marks


def _program(model: Any, call: Callable[[Any], Any]) -> tuple[Any, list[Position]]:
    """The program of a call with all layers marked, as a function of the model's arrays, and where its marks are."""
    found, structure = jax.tree.flatten(_tapped(model), is_leaf=lambda leaf: leaf is None)
    where = [i for i, leaf in enumerate(found) if eqx.is_array(leaf)]

    def run(arrays: list[Array]) -> Any:
        whole = list(found)
        for i, array in zip(where, arrays, strict=True):
            whole[i] = array
        return call(jax.tree.unflatten(structure, whole))

    program = jax.make_jaxpr(run)(_leaves(model))
    positions = list(_positions(program))
    if not positions:
        hidden = any(_has_marks(inner) for e in program.eqns for inner in inner_programs(e))
        raise CapabilityError(
            "layers are called inside a loop of unknown length or a branch and cannot be watched"
            if hidden
            else f"{type(model).__name__} called none of its layers",
            remedy="unroll the loop, or watch the model around it"
            if hidden
            else "it needs dense layers or convolutions of chainrule.nn",
        )
    return program, positions


def _tapped(model: Any) -> Any:
    numbers = iter(range(len(layers(model))))
    return jax.tree.map(
        lambda leaf: _Tapped(leaf, jnp.asarray(next(numbers), jnp.int32)) if _is_layer(leaf) else leaf,
        model,
        is_leaf=_is_layer,
    )


def _leaves(model: Any) -> list[Array]:
    return [leaf for leaf in jax.tree.leaves(_tapped(model)) if eqx.is_array(leaf)]


def _positions(program: Any) -> Iterator[Position]:
    """Where the marks of a program stand, in the order in which `_run` gives their values back."""
    for number, equation in enumerate(program.jaxpr.eqns):
        if _is_mark(equation):
            yield (number,)
        elif equation.primitive.name == "scan":
            yield from ((number, None, *rest) for rest in _positions(closed(equation.params["jaxpr"])))
        elif (inner := body(equation)) is not None:
            yield from ((number, *rest) for rest in _positions(inner))


def _run(
    program: Any, arguments: Sequence[Any], shifts: Mapping[int, Array]
) -> tuple[list[Any], list[_Marked]]:
    """The results of a program and its marked values; `shifts` are added to some of these, by their number."""
    jaxpr = program.jaxpr
    flat = jax.tree.leaves(arguments)
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *flat], strict=True))
    found: list[_Marked] = []
    for equation in jaxpr.eqns:
        inputs = [atom.val if is_literal(atom) else values[atom] for atom in equation.invars]
        inner = body(equation)
        if _is_mark(equation):
            value = inputs[0] + shifts[len(found)] if len(found) in shifts else inputs[0]
            found.append(_Marked(inputs[1], value))
            out = [value]
        elif equation.primitive.name == "scan" and _has_marks(closed(equation.params["jaxpr"])):
            out, more = _run_scan(equation, inputs, _after(shifts, len(found)))
            found += more
        elif inner is not None and _has_marks(inner):
            out, more = _run(inner, inputs, _after(shifts, len(found)))
            found += more
        else:
            names = list(dict.fromkeys(atom for atom in equation.invars if not is_literal(atom)))
            alone = program_of((), (), names, equation.outvars, [equation])
            out = jaxpr_as_fun(alone)(*(values[name] for name in names))
        values.update(zip(equation.outvars, out, strict=True))
    return [atom.val if is_literal(atom) else values[atom] for atom in jaxpr.outvars], found


def _run_scan(
    equation: Any, inputs: Sequence[Any], shifts: Mapping[int, Array]
) -> tuple[list[Any], list[_Marked]]:
    """A loop whose steps give their marked values back, stacked."""
    inner, parts = closed(equation.params["jaxpr"]), scan_parts(equation)
    constants = inputs[: parts.constants]
    carried = list(inputs[parts.constants : parts.constants + parts.carried])
    sliced = list(inputs[parts.constants + parts.carried :])
    count = len(list(_positions(inner)))
    own = {i: shift for i, shift in shifts.items() if i < count}

    def step(carry: list[Any], now: Any) -> tuple[list[Any], Any]:
        out, found = _run(inner, [*constants, *carry, *now[0]], now[1])
        return out[: parts.carried], (out[parts.carried :], found)

    last, (stacked, found) = jax.lax.scan(
        step, carried, (sliced, own), length=parts.length, reverse=parts.reverse
    )
    return [*last, *stacked], found


def _after(shifts: Mapping[int, Array], first: int) -> dict[int, Array]:
    """The shifts of the marks from the `first` on, counted from there."""
    return {i - first: shift for i, shift in shifts.items() if i >= first}


def _is_mark(equation: Any) -> bool:
    return (
        equation.params.get("name") == _MARK
        and len(equation.invars) == 2
        and not equation.invars[1].aval.shape
    )


def _has_marks(program: Any) -> bool:
    return any(
        _is_mark(equation) or any(map(_has_marks, inner_programs(equation)))
        for equation in program.jaxpr.eqns
    )


# ---------------------------------------------------------------------- names of marks


def _named(
    names: Sequence[str], positions: Sequence[Position], inputs: Sequence[_Marked], outputs: Sequence[_Marked]
) -> Iterator[tuple[str, Array, Array]]:
    """Name, input and output of every call of a layer, in the order of the calls; later ones are numbered."""
    calls: list[tuple[Position, int, Array, Array]] = []
    for i in range(0, len(positions), 2):
        entering, leaving = inputs[i], outputs[i + 1]
        numbers = np.asarray(entering.tag) // 2
        if (numbers == numbers.flat[0]).all():  # one layer, however often the loops around it turn
            calls.append((positions[i], int(numbers.flat[0]), entering.value, leaving.value))
            continue
        for step in np.ndindex(numbers.shape):
            turns = iter(step)
            index = tuple(next(turns) if part is None else part for part in positions[i])
            calls.append((index, int(numbers[step]), entering.value[step], leaving.value[step]))
    counts: dict[int, int] = {}
    for _, number, x, y in sorted(calls, key=lambda call: [part or 0 for part in call[0]]):
        counts[number] = counts.get(number, 0) + 1
        later = f", call {counts[number]}" if counts[number] > 1 else ""
        yield f"{names[number]}{later}", x, y


def _is_layer(node: Any) -> bool:
    return isinstance(node, _KINDS)


def _name(path: Any) -> str:
    parts = [str(getattr(part, "name", getattr(part, "idx", getattr(part, "key", part)))) for part in path]
    return ".".join(parts) or "layer"


__all__ = ["Flow", "Indexed", "gradients", "layer_inputs", "layers", "observe", "observer"]
