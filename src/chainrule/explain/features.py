"""What a channel of a network looks for: projections of single activations back to pixels.

A unit's activity is sent backwards through the network, with one of three rules at every rectifier: `gradient` lets
through what the unit's input let through, `deconvolution` what is positive on the way back (Zeiler and Fergus, 2014,
arXiv:1311.2901), `guided` only what passes both (Springenberg et al., 2015, arXiv:1412.6806). Pooling is undone at the
places where the largest entries were. Rectifiers are found in the network's program, so any model will do.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from chainrule.core.errors import check_choice
from chainrule.core.types import Array, Float
from chainrule.derive.jaxprs.equations import body, closed, label

Network: TypeAlias = Callable[[Array], Array]

RULES = ("gradient", "deconvolution", "guided")


def feature_maps(network: Network, x: Float[Array, "batch *shape"]) -> list[Array]:
    """What every rectifier of the network gives, where that still has the shape of an image, in order."""
    return _maps(network, "gradient")(x)


def project(
    network: Network, layer: int, x: Array, cotangent: Array, *, rule: str = "deconvolution"
) -> Float[Array, "batch *shape"]:
    """A signal at one feature map sent back to the pixels of `x`."""
    check_choice("project", "rule", rule, RULES)
    _, back = jax.vjp(lambda x: _maps(network, rule)(x)[layer], x)
    return back(cotangent)[0]


def strongest(maps: Float[Array, "batch height width channels"], channel: int) -> tuple[Array, Array]:
    """The largest activity of a channel in every example, and a signal that is this activity there, zero elsewhere."""
    one = maps[..., channel]
    flat = one.reshape(len(one), one.shape[1] * one.shape[2])
    place = flat.argmax(axis=1)
    peak = flat.max(axis=1)
    signal = jax.nn.one_hot(place, flat.shape[1], dtype=maps.dtype) * peak[:, None]
    return peak, jnp.zeros_like(maps).at[..., channel].set(signal.reshape(one.shape))


def _maps(network: Network, rule: str) -> Callable[[Array], list[Array]]:
    def run(x: Array) -> list[Array]:
        program = jax.make_jaxpr(network)(x)
        found: list[Array] = []
        _evaluate(program, [x], _RECTIFIERS[rule], found)
        return found

    return run


def _evaluate(
    program: Any, arguments: Sequence[Any], rectify: Callable[[Array], Array], found: list[Array]
) -> list[Any]:
    """Run a program operation by operation with another rectifier, and keep what rectifiers give."""
    jaxpr = program.jaxpr
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else values[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        inner = body(equation)
        if inner is not None and label(equation) == "relu":
            out = [rectify(inputs[0])]
            if out[0].ndim == 4:
                found.append(out[0])
        elif inner is not None:
            out = _evaluate(closed(inner), inputs, rectify, found)
        else:
            result = equation.primitive.bind(*inputs, **equation.params)
            out = list(result) if equation.primitive.multiple_results else [result]
        values.update(zip(equation.outvars, out, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _rectifier(rule: str) -> Callable[[Array], Array]:
    @jax.custom_vjp
    def rectify(x: Array) -> Array:
        return jnp.maximum(x, 0)

    def forward(x: Array) -> tuple[Array, Array]:
        return jnp.maximum(x, 0), x > 0

    def backward(positive: Array, signal: Array) -> tuple[Array]:
        passed = jnp.maximum(signal, 0) if rule != "gradient" else signal
        return (passed if rule == "deconvolution" else passed * positive,)

    rectify.defvjp(forward, backward)
    return rectify


_RECTIFIERS = {rule: _rectifier(rule) for rule in RULES}

__all__ = ["RULES", "feature_maps", "project", "strongest"]
