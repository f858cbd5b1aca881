"""Functions to explain: programs of JAX as they are, anything else by calls on the host.

An explained function takes a batch of inputs and gives `(batch, outputs)`, or `(batch,)` where there is one output.
What JAX can trace is compiled and has derivatives. A `predict` of scikit-learn, or any function of NumPy arrays, is
called on the host with whole batches; it has no derivative, and methods that need one refuse it by name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, DataError, suggest
from chainrule.core.types import Array, Float

Function: TypeAlias = Callable[..., Any]
"""From inputs (batch, ...) to outputs (batch, outputs) or (batch,)."""


@final
@dataclass(frozen=True)
class HostFunction:
    """A function of NumPy arrays, called on the host with whole batches; it has no derivative."""

    predict: Callable[[np.ndarray], Any]

    def __call__(self, x: Any) -> np.ndarray:
        """The outputs of a batch."""
        found = np.asarray(self.predict(np.asarray(x)))
        if found.dtype.kind not in "fiub":
            raise ArgumentError(
                f"f gives values of type {found.dtype}, and only numbers can be explained",
                remedy="give a function that gives numbers, such as predict_proba or decision_function of a classifier",
            )
        return found.astype(np.float64)


def host_function(predict: Callable[[np.ndarray], Any]) -> HostFunction:
    """A plain Python function of NumPy arrays as a function to explain.

    >>> host_function(lambda x: [sum(row) for row in x])(np.ones((2, 3)))
    array([3., 3.])
    """
    return predict if isinstance(predict, HostFunction) else HostFunction(predict)


def adapted(where: str, f: Any, x: np.ndarray) -> Function:
    """`f` itself where JAX can trace it for inputs like `x`, otherwise `host_function(f)`.

    >>> traced = adapted("explain", lambda x: jnp.sin(x).sum(axis=1), np.ones((2, 3)))
    >>> called = adapted("explain", np.linalg.det, np.ones((2, 3, 3)))
    >>> isinstance(traced, HostFunction), isinstance(called, HostFunction)
    (False, True)
    """
    if not callable(f):
        raise ArgumentError(
            f"{where}(f={type(f).__name__}): f must be a function from a batch of inputs to outputs",
            remedy="give a function, for example model.logits, or predict_proba of an estimator",
        )
    if isinstance(f, HostFunction):
        return f
    try:
        shape = jax.eval_shape(lambda x: f(x), x)
    except (TypeError, RuntimeError, AttributeError):
        # JAX raises the first where NumPy, or a branch of Python, asks for numbers; torch raises the second, and
        # functions that use methods of NumPy arrays the third. What is wrong with f itself is raised again on the host.
        return host_function(f)
    return f if isinstance(shape, jax.ShapeDtypeStruct) else host_function(f)


def need_derivative(where: str, f: Function) -> None:
    """Raise where `f` runs on the host and so has no derivative.

    >>> need_derivative("integrated_gradients", host_function(np.sum))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: integrated_gradients: f is a function of NumPy arrays and has no derivative
           write f with jax.numpy, or use a method that needs values only: cr.explain.shapley
    """
    if isinstance(f, HostFunction):
        raise ArgumentError(
            f"{where}: f is a function of NumPy arrays and has no derivative",
            remedy="write f with jax.numpy, or use a method that needs values only: cr.explain.shapley",
        )


def count_outputs(where: str, f: Function, x: np.ndarray) -> int:
    """How many numbers `f` gives for an input; raises where its result is not of shape (batch, outputs) or (batch,)."""
    given = x[:1]
    shape = np.shape(f(given)) if isinstance(f, HostFunction) else jax.eval_shape(lambda x: f(x), given).shape
    if len(shape) not in (1, 2) or shape[0] != 1:
        raise ArgumentError(
            f"{where}: f gives an array of shape {shape} for inputs of shape {given.shape}",
            remedy="f must give (batch, outputs), or (batch,) for one output",
        )
    return int(shape[1]) if len(shape) == 2 else 1


def choose_output(
    where: str, output: int | str | None, count: int, names: Sequence[str] = ()
) -> tuple[int, str]:
    """The position and the name of the chosen output.

    >>> choose_output("shapley", "cat", 2, ["dog", "cat"]), choose_output("shapley", None, 1)
    ((1, 'cat'), (0, 'output'))
    >>> choose_output("shapley", None, 10)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: shapley(output=None): f has 10 outputs
           choose one: output=0 to output=9
    """
    which = ", ".join(map(repr, names[:10])) if names else f"output=0 to output={count - 1}"
    if output is None:
        if count > 1:
            raise ArgumentError(f"{where}(output=None): f has {count} outputs", remedy=f"choose one: {which}")
        return 0, names[0] if names else "output"
    if isinstance(output, str):
        if output not in names:
            raise ArgumentError(
                f"{where}(output={output!r}): no output has this name{suggest(output, names)}",
                remedy=f"choose one: {which}",
            )
        return list(names).index(output), output
    position = output + count if isinstance(output, int) and -count <= output < 0 else output
    position = whole(where, "output", position, least=0)
    if position >= count:
        raise ArgumentError(f"{where}(output={output}): f has {count} outputs", remedy=f"choose one: {which}")
    return position, names[position] if names else ("output" if count == 1 else f"output {position}")


def one_output(out: Any, output: int) -> Any:
    """One column of the outputs of a batch."""
    return out if out.ndim == 1 else out[:, output]


def evaluate(f: Function, x: Any, output: int = 0) -> Float[np.ndarray, " batch"]:
    """One output for every input, in double precision on the host."""
    out = f(x) if isinstance(f, HostFunction) else _compiled(f, jnp.asarray(x))
    return np.asarray(one_output(out, output), np.float64)


@eqx.filter_jit
def _compiled(f: Function, x: Array) -> Array:
    return f(x)


def check_finite(where: str, values: np.ndarray, what: Callable[[int], str]) -> None:
    """Raise a `DataError` at the first value that is not finite; `what` says which one it is."""
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise DataError(
            f"{where}: f gives {values.ravel()[bad[0]]} at {what(int(bad[0]))}",
            remedy="f must be finite for the inputs, the background, and mixtures of both",
        )


__all__ = [
    "Function",
    "HostFunction",
    "adapted",
    "check_finite",
    "choose_output",
    "count_outputs",
    "evaluate",
    "host_function",
    "need_derivative",
    "one_output",
]
