"""Bad input is refused with the argument, the value and what to do."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive import validation

d = cr.derive
x2 = np.ones(2)
square = lambda x: (x**2).sum()  # noqa: E731

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a mode nobody knows": (
        lambda: d.jacobian(square, mode="sideways"),
        r'jacobian(mode="sideways"): mode must be "auto", "forward" or "reverse"',
    ),
    "a mode with a typing error": (
        lambda: d.jacobian(square, mode="revers"),
        "(did you mean 'reverse'?)",
    ),
    "a strategy nobody knows": (
        lambda: d.hessian(square, "fastest"),
        'hessian(strategy="fastest"): strategy must be "auto", "forward-over-forward", "forward-over-reverse", ',
    ),
    "a strategy of a product nobody knows": (
        lambda: d.hvp(square, "auto"),
        'hvp(strategy="auto"): strategy must be "forward-over-forward", ',
    ),
    "no products at a time": (
        lambda: d.jacobian(square, chunk=0),
        "jacobian(chunk=0): chunk must be a positive whole",
    ),
    "a negative chunk": (
        lambda: d.hessian(square, chunk=-2),
        "hessian(chunk=-2): chunk must be a positive whole",
    ),
    "whole numbers": (
        lambda: d.gradient(square)({"count": np.arange(3)}),
        "gradient: x['count'] has type int64 and shape (3,); derivatives need floats\n       cast it",
    ),
    "a truth value": (
        lambda: d.jacobian(square)(np.array([True])),
        "jacobian: x has type bool and shape (1,)",
    ),
    "a whole number to a product": (lambda: d.jvp(square, 3, 1.0), "jvp: x has type int64"),
    "a text": (
        lambda: d.jacobian(square)({"name": "Ada"}),
        "jacobian: x['name'] is str, not a number or array\n       pass numbers, arrays, or PyTrees of them",
    ),
    "a function as point": (lambda: d.hessian(square)([jnp.sin]), "hessian: x[0] is "),
    "a text as direction": (lambda: d.jvp(square, x2, "up"), "jvp: v is str, not a number or array"),
    "complex numbers": (
        lambda: d.gradient(square)(1j * x2),
        "gradient: x is complex (complex128)\n       pass holomorphic=True if the function is, or differentiate in its",
    ),
    "complex numbers in a Hessian": (
        lambda: d.hessian(square)(1j * x2),
        "hessian: x is complex (complex128)\n       pass holomorphic=True if the function is, or differentiate in its",
    ),
    "real numbers for a holomorphic function": (
        lambda: d.jacobian(square, holomorphic=True)(x2),
        "jacobian(holomorphic=True): x has type float64, not complex",
    ),
    "a real output of a holomorphic function": (
        lambda: d.jacobian(jnp.abs, holomorphic=True)(1j * x2),
        "jacobian(holomorphic=True): output has type float64; a holomorphic function is complex",
    ),
    "a complex number as loss": (
        lambda: d.gradient(lambda x: (1j * x).sum())(x2),
        "gradient: the function returns a complex number (complex128)",
    ),
    "a vector to gradient": (
        lambda: d.gradient(jnp.sin)(x2),
        "gradient: the function returns shape (2,), not one number\n       use derive.jacobian for several outputs",
    ),
    "several outputs to gradient": (
        lambda: d.gradient(lambda x: (x.sum(), x))(x2),
        "gradient: the function returns 2 outputs of shapes [(), (2,)], not one number",
    ),
    "a number in a dictionary to gradient": (
        lambda: d.gradient(lambda x: {"loss": x.sum()})(x2),
        "gradient: the function returns a dict with a number at ['loss'], not the number itself\n"
        "       return f(x)['loss'], or use derive.jacobian",
    ),
    "a number in a tuple beside extras to gradient": (
        lambda: d.gradient(lambda x: ((x.sum(),), x), has_aux=True)(x2),
        "gradient: the function returns a tuple with a number at [0], not the number itself",
    ),
    "a number in a dictionary to hvp": (
        lambda: d.hvp(lambda x: {"loss": x.sum()})(x2, x2),
        "hvp: the function returns a dict with a number at ['loss'], not the number itself",
    ),
    "a number in a list to vhp": (
        lambda: d.vhp(lambda x: [x.sum()])(x2, x2),
        "vhp: the function returns a list with a number at [0], not the number itself",
    ),
    "a vector to hvp": (
        lambda: d.hvp(jnp.sin)(x2, x2),
        "hvp: the function returns shape (2,), not one number",
    ),
    "a vector to quadratic": (
        lambda: d.quadratic(jnp.sin)(x2, x2, x2),
        "quadratic: the function returns shape (2,), not one number",
    ),
    "a vector to mixed": (
        lambda: d.mixed(lambda x, q: x * q)(x2, 1.0),
        "mixed: the function returns shape (2,)",
    ),
    "a vector to compare": (
        lambda: d.compare_hessian(jnp.sin, x2),
        "compare_hessian: the function returns shape (2,)",
    ),
    "a whole number as loss": (
        lambda: d.gradient(lambda x: jnp.argmax(x))(x2),
        "gradient: the function returns type int64; its derivative is zero or undefined",
    ),
    "a text as loss": (
        lambda: d.gradient(lambda x: "low")(x2),
        "gradient: the function returns str, not a number",
    ),
    "an output of whole numbers": (
        lambda: d.jacobian(lambda x: {"best": jnp.argmax(x)})(x2),
        "jacobian: output['best'] has type int64; its derivative is zero or undefined\n       return only floats",
    ),
    "an output of text": (
        lambda: d.jacobian(lambda x: (x, "text"))(x2),
        "jacobian: output[1] is str, not a number or array",
    ),
    "a pullback of whole numbers": (
        lambda: d.vjp(lambda x: (x, jnp.argmax(x)), x2),
        "vjp: output[1] has type int64; its derivative is zero or undefined",
    ),
    "a direction of another shape": (
        lambda: d.jvp(square, {"a": x2}, {"a": np.ones(3)}),
        "jvp: v['a'] has shape (3,), x['a'] has shape (2,)\n       directions have the shape of what they move",
    ),
    "a direction of another structure": (
        lambda: d.jvp(square, x2, [x2]),
        "jvp: v has structure PyTreeDef([*]), x has",
    ),
    "a complex direction": (lambda: d.jvp(square, x2, 1j * x2), "jvp: v is complex, x has type float64"),
    "a cotangent of another shape": (
        lambda: d.vjp(jnp.sin, x2)[1](np.ones(3)),
        "vjp: u has shape (3,), f(x) has shape (2,)",
    ),
    "a direction of another shape for a linear map": (
        lambda: d.linearize(jnp.sin, x2)[1](np.ones(3)),
        "linearize: v has shape (3,), x has shape (2,)",
    ),
    "a direction of another shape for a Hessian": (
        lambda: d.hvp(square)(x2, np.ones((2, 1))),
        "hvp: v has shape (2, 1), x has shape (2,)",
    ),
    "one direction of another shape": (
        lambda: d.quadratic(square)(x2, x2, np.ones(1)),
        "quadratic: w has shape (1,), x has shape (2,)",
    ),
    "multipliers of another shape": (
        lambda: d.lagrangian_hessian(jnp.sin)(x2, np.ones(3)),
        "lagrangian_hessian: y has shape (3,), f(x) has shape (2,)",
    ),
    "an argument that is not there": (
        lambda: d.gradient(square, argnums=1)(x2),
        "gradient(argnums=1): the function was called with 1 arguments",
    ),
    "an argument that is not there for a Jacobian": (
        lambda: d.jacobian(square, argnums=(0, -2))(x2),
        "jacobian(argnums=-2): the function was called with 1 arguments",
    ),
    "no extra output": (
        lambda: d.gradient(square, has_aux=True)(x2),
        "gradient(has_aux=True): the function must return (value, extra)",
    ),
    "no extra output of a Jacobian": (
        lambda: d.jacobian(square, has_aux=True)(x2),
        "jacobian(has_aux=True): the function must return (value, extra), it returns an array",
    ),
    "an extra output that is no number": (
        lambda: d.hessian(lambda x: (x.sum(), "text"), has_aux=True)(x2),
        "hessian(has_aux=True): extra is str, not a number or array",
    ),
    "no extra output of a product": (
        lambda: d.jvp(square, x2, x2, has_aux=True),
        "jvp(has_aux=True): the function must return (value, extra), it returns an array",
    ),
    "arguments of a Lagrangian from the back": (
        lambda: d.lagrangian_hessian(square, argnums=-1)(x2, x2),
        "lagrangian_hessian(argnums=-1): the arguments are counted from the front",
    ),
    "whole numbers in a mixed block": (
        lambda: d.mixed(lambda x, q: q * jnp.sum(x))(x2, 3),
        "cast it (jnp.asarray(value, float)) or choose other inputs with other",
    ),
    "no such argument of a mixed block": (
        lambda: d.mixed(lambda x, q: q * jnp.sum(x), 2)(x2, 3.0),
        "mixed(first=2): the function was called with 2 arguments",
    ),
    "nothing to check": (
        lambda: d.check(lambda x: 1.0, {}),
        "check: x holds no numbers, so there is no derivative to check",
    ),
    "nothing returned to check": (
        lambda: d.check(lambda x: None, x2),
        "check: the function returns no numbers",
    ),
    "no argument of a program": (
        lambda: d.program(lambda x: 1.0, {}),
        "program: f is called without arguments",
    ),
    "a Laplacian of whole numbers": (
        lambda: d.laplacian(jnp.argmax)(x2),
        "laplacian: output has type int64; its derivative is zero or undefined",
    ),
    "JAX functions on dual numbers": (
        lambda: d.derivative(lambda x: jnp.sum(x**2))(x2),
        "JAX's through derive.lift(jnp.sin)",
    ),
    "a tree of dual numbers": (
        lambda: d.derivative(lambda x: x["a"])({"a": 1.0}),
        "derivative: x is dict, not a number or array",
    ),
    "a text among the arguments of a plan": (
        lambda: d.plan(lambda x: x["a"], {"a": 1.0, "b": "text"}),
        "plan: x.b is of type str, which is neither an array nor a number",
    ),
    "no rows at a time": (
        lambda: d.jacobian_blocks(jnp.sin, x2, rows=0),
        "jacobian_blocks(rows=0): rows must be",
    ),
    "blocks of whole numbers": (
        lambda: list(d.jacobian_blocks(jnp.argsort, x2)),
        "jacobian_blocks: output has type int64",
    ),
    "no repeats": (
        lambda: d.compare_hessian(square, x2, repeats=0),
        "compare_hessian(repeats=0): repeats must be",
    ),
    "a check without tolerance": (
        lambda: d.check(square, x2, tolerance=0.0),
        "check(tolerance=0.0, seeds=3, step=",
    ),
    "a check of whole numbers": (lambda: d.check(square, np.arange(2)), "check: x has type int64"),
    "a check of too much": (
        lambda: d.check(jnp.sin, np.ones(2000)),
        "check: 2,000 outputs x 2,000 inputs is too much to compare entry by entry\n       check a smaller instance",
    ),
    "an argument that can be neither traced nor hashed": (
        lambda: d.jacobian(lambda x, s: x)(x2, {1, 2}),
        "an argument of type set is neither an array nor hashable",
    ),
    "a negative order": (
        lambda: d.taylor(square, x2, x2, -1),
        "taylor(order=-1): the order must not be negative",
    ),
    "a Taylor direction of another shape": (
        lambda: d.taylor(square, x2, np.ones(3), 2),
        "taylor: v has shape (3,)",
    ),
    "too many eigenvalues": (
        lambda: d.top_eigenpairs(lambda v: v, 3, 4, jax.random.key(0)),
        "top_eigenpairs(count=4): count must lie between 1 and 3",
    ),
    "no samples": (
        lambda: d.trace(lambda v: v, 3, jax.random.key(0), samples=0),
        "trace(samples=0): samples must be at least 1",
    ),
    "an estimator nobody knows": (
        lambda: d.trace(lambda v: v, 3, jax.random.key(0), method="guess"),
        'trace(method="guess"): method must be "hutchinson" or "hutch++"',
    ),
    "a divergence of another size": (
        lambda: d.divergence(lambda x: x[:1])(x2),
        "divergence: the field maps 2 numbers to 1; it must keep their number",
    ),
    "an estimate without a key": (
        lambda: d.divergence(jnp.sin, samples=4)(x2),
        "divergence: an estimate from samples needs a random key",
    ),
    "an indefinite determinant": (
        lambda: d.log_determinant(lambda v: -v, 3, jax.random.key(0)),
        "log_determinant: the matrix has an eigenvalue of -1, not all are positive",
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_is_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(ArgumentError) as caught:
        call()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 6


def test_what_cannot_be_called_is_refused() -> None:
    for where in ("gradient", "jacobian"):
        with pytest.raises(
            ArgumentError, match=f"{where}: what is to be differentiated is int, not a function"
        ):
            validation.function(where, 3)


def test_an_error_of_the_function_itself_comes_through() -> None:
    class OwnError(Exception):
        pass

    def broken(x: Any) -> Any:
        raise OwnError("mine")

    for call in (d.gradient(broken), d.jacobian(broken), d.hessian(broken), lambda x: d.check(broken, x)):
        with pytest.raises(OwnError, match="mine"):
            call(x2)
    with pytest.raises(TypeError, match=r"dot_general|matmul"):
        d.jacobian(lambda x: x @ np.ones((3, 3)))(x2)


def test_a_refused_call_leaves_the_derivative_usable() -> None:
    J = d.jacobian(jnp.sin)
    with pytest.raises(ArgumentError):
        J(np.arange(3))
    assert J(x2).shape == (2, 2)


@pytest.mark.parametrize("name", ["check", "compare_hessian"])
def test_what_runs_on_numbers_says_so_inside_jit(name: str) -> None:
    with pytest.raises(CapabilityError, match=rf"{name}: it runs on numbers, but x\['a'\] is being traced"):
        jax.jit(lambda x: getattr(d, name)(lambda p: square(p["a"]), {"a": x}))(x2)
