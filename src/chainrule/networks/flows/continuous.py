"""Continuous flows: events carried along a learned velocity from codes at time 0 to data at time 1.

    dx/dt = v(x, t)        d log |det| / dt = tr dv/dx

Any velocity will do: solutions of a differential equation never meet, so that the map has an inverse, the same equation
backwards. Up to `EXACT` entries, and wherever no key says otherwise, the trace is exact; in training above that it is
estimated with random signs that stay the same for a whole solve (Hutchinson, 1990).

Densities, codes and draws take adaptive steps that keep to a tolerance. Training takes equal steps and differentiates
them, computing each again on the way back, so that the gradient is that of what was computed; or it keeps to the
tolerance, too, and solves the adjoint equation for the gradient.

References: Chen, Rubanova, Bettencourt and Duvenaud, Neural ordinary differential equations, NeurIPS 2018; Grathwohl,
Chen, Bettencourt, Sutskever and Duvenaud, FFJORD, ICLR 2019.
"""

import abc
from typing import Literal, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import check_choice
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.networks.flows.base import Bijection, Conditions, Events, LogDets, Mapped, Passes
from chainrule.networks.flows.chain import BijectionChain
from chainrule.networks.flows.elementwise import event_shape
from chainrule.nn import Linear
from chainrule.nn.ode import ODESolution, Slope, dormand_prince, runge_kutta_step

EXACT = 16
"""Entries of an event up to which training has the trace exactly."""
_MOST = 200
"""Adaptive steps after which a solve is given up."""
_CHUNK = 64
"""Directions in which a velocity is differentiated at a time."""

Gradient = Literal["checkpointed", "adjoint"]
Vectors: TypeAlias = Float[Array, "batch entries"]


@final
class GatedLinear(eqx.Module):
    """A dense layer whose outputs are gated and shifted by the time and the condition."""

    layer: Linear
    gate: Linear
    shift: Linear

    def __init__(self, inputs: int, outputs: int, features: int, *, key: Key, gain: float = 1.0) -> None:
        one, two, three = jax.random.split(key, 3)
        self.layer = Linear(inputs, outputs, gain=gain, key=one)
        self.gate = Linear(1 + features, outputs, key=two)
        self.shift = Linear(1 + features, outputs, bias=False, gain=gain, key=three)

    def __call__(self, x: Vectors, now: Float[Array, "batch features"]) -> Float[Array, "batch outputs"]:
        return self.layer(x) * jax.nn.sigmoid(self.gate(now)) + self.shift(now)


class Velocity(eqx.Module):
    """The velocity of every event, a vector, at a time."""

    @abc.abstractmethod
    def __call__(self, t: Scalar, x: Vectors, condition: Conditions) -> Vectors:
        """That of each event; events know nothing of each other."""


@final
class GatedVelocity(Velocity):
    """A dense network of event and time, with tanh, which is as smooth as solvers like it; at first next to nothing."""

    layers: tuple[GatedLinear, ...]

    def __init__(self, entries: int, width: int, depth: int, *, features: int = 0, key: Key) -> None:
        sizes = (entries, *(width,) * depth, entries)
        gains = (*(1.0,) * depth, 0.1)
        self.layers = tuple(
            GatedLinear(before, after, features, gain=gain, key=k)
            for before, after, gain, k in zip(
                sizes[:-1], sizes[1:], gains, jax.random.split(key, depth + 1), strict=True
            )
        )

    def __call__(self, t: Scalar, x: Vectors, condition: Conditions) -> Vectors:
        now = jnp.full((len(x), 1), t, x.dtype)
        if condition is not None:
            now = jnp.concatenate([now, condition.astype(x.dtype)], axis=1)
        for layer in self.layers[:-1]:
            x = jnp.tanh(layer(x, now).astype(x.dtype))
        return self.layers[-1](x, now).astype(x.dtype)


class SolvedFlow(NamedTuple):
    """Where events went, the change of volume, and the number of evaluations of the velocity it took."""

    mapped: Mapped
    evaluations: Int[Array, ""]


@final
class Continuous(Bijection):
    """The solution of `dx/dt = v(x, t)` from 0 to 1.

    >>> layer = Continuous((2,), GatedVelocity(2, 8, 1, key=jax.random.key(0)))
    >>> x = jnp.ones((1, 2))
    >>> bool(jnp.allclose(layer.forward(layer.inverse(x).value).value, x, atol=1e-3))
    True
    """

    velocity: Velocity
    shape: tuple[int, ...] = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    gradient: Gradient = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, ...],
        velocity: Velocity,
        *,
        steps: int = 8,
        tolerance: float = 1e-5,
        gradient: Gradient = "checkpointed",
    ) -> None:
        check_choice("Continuous", "gradient", gradient, ("checkpointed", "adjoint"))
        self.shape, self.steps = event_shape("Continuous", shape), whole("Continuous", "steps", steps)
        self.velocity, self.tolerance, self.gradient = velocity, tolerance, gradient

    @property
    def passes(self) -> Passes:
        """Those of the equal steps of training; adaptive ones are as many as the tolerance asks for."""
        return Passes(4 * self.steps, 4 * self.steps)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """From time 0 to time 1."""
        return self.solved(z, condition, start=0.0, end=1.0).mapped

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """From time 1 to time 0."""
        return self.solved(x, condition, start=1.0, end=0.0).mapped

    def inverse_estimate(self, x: Events, condition: Conditions, key: Key) -> Mapped:
        """The trace by random signs above `EXACT` entries; equal steps unless the adjoint equation is solved."""
        flat = x.reshape(len(x), -1)
        signs = jax.random.rademacher(key, flat.shape, flat.dtype) if flat.shape[1] > EXACT else None
        if self.gradient == "adjoint":
            carried = (self.velocity, flat, condition)
            value, log_det = _adaptive(carried, signs, 1.0, 0.0, tolerance=self.tolerance)
        else:
            value, log_det = _equal_steps(self.velocity, flat, condition, signs, self.steps)
        return Mapped(value.reshape(x.shape), log_det)

    def solved(
        self,
        x: Events,
        condition: Conditions = None,
        *,
        start: float | Scalar = 1.0,
        end: float | Scalar = 0.0,
    ) -> SolvedFlow:
        """By adaptive steps with the exact trace, and what it took; derivatives are those of the steps."""

        def slope(t: Array, state: _State) -> _State:
            return _slope(self.velocity, t, state[0], condition, None)

        flat = x.reshape(len(x), -1)
        solution = _adaptive_steps(
            slope, (flat, jnp.zeros(len(x), x.dtype)), start, end, self.tolerance, True
        )
        value, log_det = solution.y
        return SolvedFlow(Mapped(value.reshape(x.shape), log_det), solution.evaluations)


def solver_evaluations(
    bijection: Bijection, x: Events, condition: Conditions = None
) -> Int[Array, ""] | None:
    """How often velocities were evaluated on the way from these data to codes; None for flows without any.

    >>> layer = Continuous((2,), GatedVelocity(2, 8, 1, key=jax.random.key(0)))
    >>> int(solver_evaluations(BijectionChain([layer, layer]), jnp.ones((1, 2)))) > 12
    True
    """
    layers = bijection.layers if isinstance(bijection, BijectionChain) else (bijection,)
    if not any(isinstance(layer, Continuous) for layer in layers):
        return None
    total = jnp.zeros((), int)
    for layer in reversed(layers):
        if isinstance(layer, Continuous):
            (x, _), evaluations = layer.solved(x, condition)
            total = total + evaluations
        else:
            x = layer.inverse(x, condition).value
    return total


def solver_tolerance(bijection: Bijection) -> float:
    """The error of a step that equations of a flow are solved to, the largest of several; 0 where none is solved.

    >>> layer = Continuous((2,), GatedVelocity(2, 8, 1, key=jax.random.key(0)), tolerance=1e-3)
    >>> solver_tolerance(BijectionChain([layer, layer]))
    0.001
    """
    nodes = jax.tree.leaves(bijection, is_leaf=lambda node: isinstance(node, Continuous))
    return max((node.tolerance for node in nodes if isinstance(node, Continuous)), default=0.0)


_State: TypeAlias = tuple[Vectors, LogDets]


def _slope(velocity: Velocity, t: Array, x: Vectors, condition: Conditions, signs: Vectors | None) -> _State:
    """The velocity and its divergence."""

    def field(x: Array) -> Array:
        return velocity(t, x, condition)

    if signs is not None:
        value, along = jax.jvp(field, (x,), (signs,))
        return value, (along * signs).sum(axis=1)
    value, push = jax.linearize(field, x)

    def diagonal(entry: Array) -> Array:
        return push(jnp.broadcast_to(entry[None], x.shape)) @ entry

    basis = jnp.eye(x.shape[1], dtype=x.dtype)
    each = (
        jax.lax.map(diagonal, basis, batch_size=_CHUNK) if len(basis) > _CHUNK else jax.vmap(diagonal)(basis)
    )
    return value, each.sum(axis=0)


def _equal_steps(
    velocity: Velocity, x: Vectors, condition: Conditions, signs: Vectors | None, steps: int
) -> _State:
    """Backwards in time by the classical method; the reverse pass finds the states between steps, and no more."""
    h = -1.0 / steps

    @jax.checkpoint
    def step(state: _State, index: Array) -> tuple[_State, None]:
        def slope(t: Array, state: _State) -> _State:
            return _slope(velocity, t, state[0], condition, signs)

        return runge_kutta_step(slope, 1 + index * h, state, h), None

    begin = (x, jnp.zeros(len(x), x.dtype))
    return jax.lax.scan(step, begin, jnp.arange(steps, dtype=x.dtype))[0]


def _adaptive_steps(
    slope: Slope,
    state: Tree,
    start: float | Scalar,
    end: float | Scalar,
    tolerance: float,
    differentiable: bool,
) -> ODESolution:
    dtype = jax.tree.leaves(state)[0].dtype
    solution = dormand_prince(
        slope,
        state,
        jnp.asarray(start, dtype),
        jnp.asarray(end, dtype),
        rtol=tolerance,
        atol=tolerance,
        most=_MOST,
        differentiable=differentiable,
    )
    reached = eqx.error_if(
        solution.y,
        ~solution.reached,
        f"a continuous flow was not solved within {_MOST} steps at tolerance={tolerance:g}: "
        "use a larger tolerance=, or train it with more steps= or a smaller learning rate",
    )
    return solution._replace(y=reached)


@eqx.filter_custom_vjp
def _adaptive(
    carried: tuple[Velocity, Vectors, Conditions],
    signs: Vectors | None,
    start: float,
    end: float,
    *,
    tolerance: float,
) -> _State:
    velocity, x, condition = carried

    def slope(t: Array, state: _State) -> _State:
        return _slope(velocity, t, state[0], condition, signs)

    return _adaptive_steps(slope, (x, jnp.zeros(len(x), x.dtype)), start, end, tolerance, False).y


@_adaptive.def_fwd
def _adaptive_forward(perturbed, carried, signs, start, end, *, tolerance):  # type: ignore[no-untyped-def]
    del perturbed
    out = _adaptive(carried, signs, start, end, tolerance=tolerance)
    return out, out[0]


@_adaptive.def_bwd
def _adaptive_backward(  # type: ignore[no-untyped-def]
    reached, cotangents, perturbed, carried, signs, start, end, *, tolerance
):
    """The adjoint equation: cotangents of state, parameters and condition are carried back with the state itself."""
    del perturbed
    velocity, _, condition = carried
    arrays, rest = eqx.partition((velocity, condition), eqx.is_inexact_array)
    of_value, of_volume = cotangents
    of_value = jnp.zeros_like(reached) if of_value is None else of_value
    of_volume = jnp.zeros(len(reached), reached.dtype) if of_volume is None else of_volume

    def slope(t: Array, state: Tree) -> Tree:
        def at(arrays: Tree, x: Array) -> _State:
            velocity, condition = eqx.combine(arrays, rest)
            return _slope(velocity, t, x, condition, signs)

        (value, _), pull = jax.vjp(at, arrays, state[0])
        of_arrays, of_x = pull((state[1], of_volume))
        return value, -of_x, jax.tree.map(jnp.negative, of_arrays)

    begin = (reached, of_value, jax.tree.map(jnp.zeros_like, arrays))
    _, of_x, (of_velocity, of_condition) = _adaptive_steps(slope, begin, end, start, tolerance, False).y
    return of_velocity, of_x, of_condition


__all__ = [
    "EXACT",
    "Continuous",
    "GatedVelocity",
    "SolvedFlow",
    "Velocity",
    "solver_evaluations",
    "solver_tolerance",
]
