"""Taps: values inside any network by name, and the shares of its units that are dead or saturated.

Every module that can be called (layers of this package and of Equinox, normalisers, blocks, classes of the user's own)
has a tap under its path, and every nonlinearity right behind one has a tap under that path and its own name:
`blocks.1.linear`, `blocks.1.linear.relu`. Nothing has to be prepared: modules are wrapped for the time of one trace,
and the traced program is run so that it gives the values back. A module that a `lax.scan` calls has the steps of the
loop along the first axis. What comes after the last module belongs to the loss and has no tap.

A unit is dead where the slope of its nonlinearity is zero for every example; one of a bounded nonlinearity is saturated
where the slope is below a twentieth of the largest for nearly every example. Neither learns.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, CapabilityError, suggest
from chainrule.core.scans import scan_parts
from chainrule.core.types import Array, Scalar
from chainrule.derive.jaxprs.equations import body, closed, is_literal, label
from chainrule.explain.methods.equations import applied
from chainrule.explain.methods.marking import MARK, marked, unit_axes

M = TypeVar("M")
_SMALL, _NEARLY = 0.05, 0.95
_BOUNDED = {
    "tanh": 1.0,
    "sigmoid": 0.25,
    "softsign": 1.0,
    "hard_tanh": 1.0,
    "hard_sigmoid": 1 / 6,
    "relu6": 1.0,
}
"""Nonlinearities that are flat on both sides, and their largest slope."""
_CALLED = (
    *("relu", "relu6", "elu", "selu", "celu", "leaky_relu", "silu", "softplus", "hard_tanh", "hard_sigmoid"),
    *("sigmoid", "softsign", "mish", "gelu"),
)
_PRIMITIVES = {"tanh": "tanh", "logistic": "sigmoid"}
_SAME_VALUES = (
    "convert_element_type",
    "reshape",
    "transpose",
    "squeeze",
    "broadcast_in_dim",
    "copy",
    "expand_dims",
)
_ARITHMETIC = ("add", "add_any", "sub", "mul", "div")


@final
@dataclass(frozen=True)
class Tap:
    """What was seen at one tap."""

    values: np.ndarray | None
    """All of it, where it was asked for."""
    deviation: float
    dead: float | None = None
    """Share of the units; none where the tap is no nonlinearity."""
    saturated: float | None = None
    """Share of the units; none where the tap is no bounded nonlinearity."""


def observer(model: M, call: Callable[[M], Any], keep: Iterable[str] = ()) -> Callable[[M], dict[str, Tap]]:
    """A function that looks at every tap of models of one structure while `call(model)` runs, compiled once.

    All values are given back only of the taps in `keep`.

    >>> import chainrule as cr
    >>> moons = cr.data.load("moons")
    >>> model = cr.models.build("mlp", moons, width=8, depth=2, activation="relu")
    >>> x = jnp.asarray(moons.train.batch(np.arange(16)).x)
    >>> observer(model, lambda model: model.predict(x))(model).keys()
    dict_keys(['blocks.0.linear', 'blocks.0.linear.relu', 'blocks.0', 'head'])
    """
    kept = frozenset(keep)
    run, order = _runner(model, call, kept)
    for name in kept - set(order):
        raise unknown(name, order)
    compiled = jax.jit(run)

    def seen(model: M) -> dict[str, Tap]:
        found = compiled(eqx.filter(model, eqx.is_array))
        return {name: _tap(found[name]) for name in order}

    return seen


def names(model: M, call: Callable[[M], Any]) -> list[str]:
    """The taps that `call(model)` passes, in its order; nothing is computed."""
    return _runner(model, call, frozenset())[1]


def sensitivity(model: M, call: Callable[[M], Array], name: str, cotangent: Array) -> tuple[Array, Array]:
    """The value of one tap, and a signal at what `call(model)` gives sent back to it. Inside of a compiled program.

    Of a module that is called several times the value is that of its first call, the signal what reaches all of them.

    >>> import chainrule as cr
    >>> moons = cr.data.load("moons")
    >>> model = cr.models.build("mlp", moons, width=8, depth=2, activation="relu")
    >>> x = jnp.asarray(moons.train.batch(np.arange(4)).x)
    >>> value, signal = sensitivity(model, lambda model: model.logits(x), "blocks.0.linear.relu", jnp.ones((4, 2)))
    >>> value.shape, bool(jnp.allclose(signal, model.head.weight.sum(axis=1)[None], atol=1e-6))
    ((4, 8), True)
    """
    known = names(model, call)
    if name not in known:
        raise unknown(name, known)
    program = jax.make_jaxpr(lambda: call(marked(model)))()
    axes = unit_axes(model)

    def run(shift: Array) -> tuple[Array, Array]:
        (out,), _, found = _Look(axes, {name: shift}).program(program, [], [])
        return out, found[name].values

    seen = jax.eval_shape(lambda: _Look(axes).program(program, [], [])[2][name].values)
    _, back, value = jax.vjp(run, jnp.zeros(seen.shape, seen.dtype), has_aux=True)
    return value, back(cotangent)[0]


def nonlinearity_after(found: Mapping[str, Tap], name: str) -> str | None:
    """The first nonlinearity from a tap on: where the units of a layer become dead or saturated."""
    rest = list(found)[list(found).index(name) :]
    return next((one for one in rest if found[one].dead is not None), None)


def _runner(
    model: M, call: Callable[[M], Any], kept: frozenset[str]
) -> tuple[Callable[[M], dict[str, Any]], list[str]]:
    """What is seen as a function of the model's arrays, and the names in order."""
    arrays, rest = eqx.partition(model, eqx.is_array)
    program = jax.make_jaxpr(lambda arrays: call(marked(eqx.combine(arrays, rest))))(arrays)
    look = _Look(unit_axes(model))
    order: list[str] = []

    def run(arrays: M) -> dict[str, Any]:
        _, _, found = look.program(program, jax.tree.leaves(arrays), [None] * len(program.jaxpr.invars))
        last = max((number for number, name in enumerate(found) if name in look.modules), default=-1)
        order[:] = list(found)[: last + 1]  # a compiled function gives dictionaries back sorted
        return {
            name: {**found[name].facts, **({"values": found[name].values} if name in kept else {})}
            for name in order
        }

    jax.eval_shape(run, arrays)
    if not order:
        raise CapabilityError(
            f"{type(model).__name__}: no module of it is called where it can be watched",
            remedy="taps are modules of Equinox or of this package, outside of while loops and branches",
        )
    return run, order


def _tap(found: Mapping[str, Any]) -> Tap:
    values = np.asarray(found["values"], np.float32) if "values" in found else None
    shares = {name: float(found[name]) for name in ("dead", "saturated") if name in found}
    return Tap(values, float(found["deviation"]), **shares)


def unknown(name: str, known: Sequence[str]) -> ArgumentError:
    """The error where there is no tap of a name."""
    shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
    return ArgumentError(f"there is no tap {name!r}{suggest(name, known)}", remedy=f"there are: {shown}")


@final
@dataclass(frozen=True)
class _Seen:
    """What is seen at a tap while the program runs."""

    values: Array
    facts: dict[str, Scalar]


@final
class _Look:
    """A run through a program that keeps what it sees; `origin` is the module a value comes straight from."""

    def __init__(self, axes: Mapping[str, int], shifts: Mapping[str, Array] | None = None) -> None:
        self.modules, self.shifts = axes, shifts or {}

    def program(
        self, program: Any, given: Sequence[Any], origins: Sequence[str | None]
    ) -> tuple[list[Any], list[str | None], dict[str, _Seen]]:
        """Results, where each comes from, and taps in the order in which they are passed."""
        jaxpr = program.jaxpr
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *given], strict=True))
        origin = dict(zip(jaxpr.invars, origins, strict=True))
        found: dict[str, _Seen] = {}
        for equation in jaxpr.eqns:
            inputs = [atom.val if is_literal(atom) else values[atom] for atom in equation.invars]
            sources = [None if is_literal(atom) else origin.get(atom) for atom in equation.invars]
            out, after, more = self._equation(equation, inputs, sources)
            values.update(zip(equation.outvars, out, strict=True))
            origin.update(zip(equation.outvars, after, strict=True))
            for name, seen in more.items():
                found[_fresh(name, found)] = seen
        read = [atom.val if is_literal(atom) else values[atom] for atom in jaxpr.outvars]
        return read, [None if is_literal(atom) else origin.get(atom) for atom in jaxpr.outvars], found

    def _equation(
        self, equation: Any, inputs: list[Any], sources: list[str | None]
    ) -> tuple[list[Any], list[str | None], dict[str, _Seen]]:
        inner, called = body(equation), label(equation)
        mark = str(equation.params.get("name", ""))
        if mark.startswith(MARK):
            name = mark.removeprefix(MARK)
            value = self._shifted(name, inputs[0])
            return [value], [name], {name: _Seen(value, {"deviation": _deviation(value)})}
        kind = _nonlinearity(equation, called)
        source = next((one for one in sources if one), None)
        if kind and source:
            name = f"{source}.{kind}"
            out = [self._shifted(name, applied(equation, inputs)[0])]
            return out, [None], {name: self._bent(equation, inputs, sources, out[0], kind, source)}
        if equation.primitive.name == "scan":
            return self._loop(equation, inputs, sources)
        if inner is not None:
            return self.program(inner, inputs, sources)
        return applied(equation, inputs), [_passed_on(equation, sources)] * len(equation.outvars), {}

    def _shifted(self, name: str, value: Array) -> Array:
        """A value with what is added to it under its name, which goes on in its stead."""
        return value + self.shifts[name] if name in self.shifts else value

    def _bent(
        self, equation: Any, inputs: list[Any], sources: list[str | None], out: Array, kind: str, source: str
    ) -> _Seen:
        """What a nonlinearity gives, and the shares of its units that have no slope left."""
        moving = next(number for number, one in enumerate(sources) if one)

        def alone(x: Array) -> Array:
            return applied(equation, [x if number == moving else y for number, y in enumerate(inputs)])[0]

        x = inputs[moving]
        _, slope = jax.jvp(alone, (x,), (jnp.ones_like(x),))
        axis = self.modules.get(source, -1) if x.ndim > 2 else -1
        others = tuple(number for number in range(x.ndim) if number != axis % x.ndim)
        size = jnp.abs(slope)
        dead = jnp.all(size == 0, axis=others)
        shares = {"dead": jnp.mean(dead)}
        if kind in _BOUNDED:
            flat = jnp.mean(size < _SMALL * _BOUNDED[kind], axis=others) > _NEARLY
            shares["saturated"] = jnp.mean(flat & ~dead)
        return _Seen(out, {"deviation": _deviation(out), **shares})

    def _loop(
        self, equation: Any, inputs: list[Any], sources: list[str | None]
    ) -> tuple[list[Any], list[str | None], dict[str, _Seen]]:
        """A loop whose steps give what they see, stacked; shares are the means over the steps."""
        inner, parts = closed(equation.params["jaxpr"]), scan_parts(equation)
        constants, carried = parts.constants, parts.carried
        before = [None if number >= constants + carried else one for number, one in enumerate(sources)]
        seen: dict[str, None] = {}

        def step(carry: list[Any], now: list[Any]) -> tuple[list[Any], Any]:
            out, _, found = self.program(inner, [*inputs[:constants], *carry, *now], before)
            seen.update(dict.fromkeys(found))
            kept = [(found[name].values, found[name].facts) for name in found]
            return out[:carried], (out[carried:], kept)

        last, (stacked, kept) = jax.lax.scan(
            step,
            inputs[constants : constants + carried],
            inputs[constants + carried :],
            length=parts.length,
            reverse=parts.reverse,
        )
        taps = {
            name: _Seen(values, {fact: jnp.mean(value) for fact, value in facts.items()})
            for name, (values, facts) in zip(seen, kept, strict=True)
        }
        return [*last, *stacked], [None] * len(equation.outvars), taps


def _deviation(values: Array) -> Scalar:
    return jnp.std(values.astype(jnp.float32))


def _nonlinearity(equation: Any, called: str) -> str:
    """The name of a nonlinearity; an empty word for every other operation."""
    shapes = [atom.aval.shape for atom in equation.invars if atom.aval.shape]
    if len(shapes) != 1 or len(equation.outvars) != 1 or equation.outvars[0].aval.shape != shapes[0]:
        return ""
    if called in _CALLED:
        return called
    primitive = equation.primitive.name
    if primitive == "max" and any(is_literal(atom) and not np.any(atom.val) for atom in equation.invars):
        return "relu"
    return _PRIMITIVES.get(primitive, "")


def _passed_on(equation: Any, sources: Sequence[str | None]) -> str | None:
    """Where a result comes straight from: through changes of shape, and sums and products with what has an origin too.

    Anything else starts a new function of the value: the cube inside of a GELU is not the output of a layer.
    """
    name = equation.primitive.name
    if name in _SAME_VALUES:
        return sources[0]
    if name in _ARITHMETIC:
        shape = equation.outvars[0].aval.shape
        whole = [s for s, atom in zip(sources, equation.invars, strict=True) if atom.aval.shape == shape]
        return whole[-1] if whole and all(whole) else None
    return None


def _fresh(name: str, taken: Mapping[str, Any]) -> str:
    count = 2
    fresh = name
    while fresh in taken:
        fresh, count = f"{name}#{count}", count + 1
    return fresh


__all__ = ["Tap", "names", "nonlinearity_after", "observer", "sensitivity", "unknown"]
