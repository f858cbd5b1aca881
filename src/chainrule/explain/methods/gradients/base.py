"""What all gradient methods share: the question that is asked of a function, slopes at many points, and blocks of rows.

Slopes of one output at any number of points come from one reverse pass over all of them: examples of a batch do not see
each other, so that the gradient of the sum holds every example's own. Points are cut into blocks of one size, which
fits a memory budget by the size of the function's own program, and one compiled program serves all of them.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError, ChainruleError
from chainrule.core.types import Array, Float, Int
from chainrule.derive.jaxprs.equations import inner_programs
from chainrule.explain.methods.functions import (
    Function,
    HostFunction,
    adapted,
    check_finite,
    choose_output,
    count_outputs,
    need_derivative,
)
from chainrule.explain.methods.run_outputs import output_function
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.train import Run

MEMORY = 1 << 28
"""Bytes that values on the way from inputs to outputs may take at once."""
Output: TypeAlias = int | str | Sequence[int] | np.ndarray | None
"""An output by number or by name, one for each input by number, or none where there is only one."""


@final
class PerExample(eqx.Module):
    """A function of one input as a function of a batch of them."""

    f: Any

    def __call__(self, x: Array) -> Array:
        """The outputs of a batch."""
        return jax.vmap(self.f)(x)


@final
@dataclass(frozen=True)
class Question:
    """Which output of a function is to be explained at which inputs."""

    where: str
    """The method that asks."""
    f: Function
    """Of batches."""
    x: np.ndarray
    """With a batch axis."""
    outputs: Int[np.ndarray, " batch"]
    """The output of each input by number."""
    name: str
    single: bool
    """Whether the input came without a batch axis."""
    features: tuple[str, ...]

    def values(
        self, x: np.ndarray | None = None, outputs: Int[np.ndarray, " rows"] | None = None
    ) -> Float[np.ndarray, " rows"]:
        """The chosen output at the inputs, or at others in their place with the outputs that are meant there."""
        given = self.x if x is None else x
        wanted = self.outputs if outputs is None else outputs
        if isinstance(self.f, HostFunction):
            out = self.f(given)
            return out if out.ndim == 1 else np.take_along_axis(out, wanted[:, None], axis=1)[:, 0]
        size = min(len(given), self.points_at_once)
        found = in_blocks(lambda x, output: _values(self.f, x, output), (given, wanted), size)
        check_finite(self.where, found, lambda row: f"row {row}")
        return found

    def rows_at_once(self, points: int) -> int:
        """How many inputs fit the memory budget when each is looked at in so many points."""
        return min(len(self.x), max(1, self.points_at_once // points))

    @functools.cached_property
    def points_at_once(self) -> int:
        """How many points fit the memory budget, at least one."""
        return max(1, MEMORY // program_bytes(self.f, self.x))

    def answer(self, values: np.ndarray, base: np.ndarray, outputs: np.ndarray, **more: Any) -> Explanation:
        """The explanation, without a batch axis where the input had none."""
        values = np.asarray(values, np.float64)
        check_finite(self.where, np.asarray(outputs), lambda row: f"row {row}")
        check_finite(self.where, values, lambda entry: f"row {entry // max(1, math.prod(values.shape[1:]))}")
        found = Explanation(
            values,
            np.asarray(base, np.float64),
            np.asarray(outputs, np.float64),
            self.x,
            self.features,
            output=self.name,
            **more,
        )
        return found[0] if self.single else found


def ask(
    where: str,
    f: Function | Run,
    x: Any,
    output: Output = None,
    features: Sequence[str] = (),
    *,
    derivative: bool = True,
) -> Question:
    """The question, checked: `f` has a derivative where one is needed, the output exists, the inputs are numbers.

    `f` takes batches; a function of one input that gives one number will do, too, and a run in raw units. Logits are
    what is to be given: slopes of probabilities vanish where a softmax is sure.
    """
    names: tuple[str, ...] = ()
    if isinstance(f, Run):
        columns = f.schema.columns if len(f.schema.shape) == 1 else ()
        features, f = features or columns, output_function(f, f.data)
        names = f.names
    given = np.asarray(x)
    if given.dtype.kind not in "fiub":
        raise ArgumentError(
            f"{where}(x): inputs of type {given.dtype} are no numbers", remedy="encode them first"
        )
    if not given.size:
        raise ArgumentError(
            f"{where}(x): shape {given.shape}, there is nothing in it", remedy="give at least one row"
        )
    given = given.astype(jax.dtypes.canonicalize_dtype(np.result_type(given.dtype, np.float32)))
    if not np.isfinite(given).all():
        row = np.argwhere(~np.isfinite(given))[0].tolist()
        raise ArgumentError(
            f"{where}(x): entry {row} is not finite", remedy="leave such rows out, or fill them in"
        )
    function, batch, single = _batched(where, f, given)
    if derivative:
        need_derivative(where, function)
    count = count_outputs(where, function, batch)
    numbers, name = _outputs(where, output, count, len(batch), names)
    entries = math.prod(batch.shape[1:])
    if features and len(features) != entries:
        raise ArgumentError(
            f"{where}(features): {len(features)} names for {entries} features",
            remedy="one name for each, in order",
        )
    return Question(where, function, batch, numbers, name, single, tuple(features))


def checked_baseline(question: Question, baseline: Any) -> np.ndarray:
    """One baseline for each input: zero where none is given, one for all, or one for each."""
    x = question.x
    if baseline is None:
        return np.zeros_like(x)
    found = np.asarray(baseline, x.dtype)
    if found.shape not in ((), x.shape[1:], x.shape, (1, *x.shape[1:])):
        raise ArgumentError(
            f"{question.where}(baseline): shape {found.shape}, the inputs have shape {x.shape}",
            remedy="give one baseline in the shape of an input, one for each input, or a number",
        )
    return np.broadcast_to(found, x.shape)


def checked_background(question: Question, background: Any) -> np.ndarray:
    """Rows in the shape of the inputs that stand for what is usual."""
    x = question.x
    found = np.asarray(background, x.dtype)
    if found.shape[1:] != x.shape[1:] or not len(found):
        raise ArgumentError(
            f"{question.where}(background): shape {found.shape}, the inputs have shape {x.shape}",
            remedy="give rows like the inputs, with the same columns",
        )
    if not np.isfinite(found).all():
        entry = np.argwhere(~np.isfinite(found))[0].tolist()
        raise ArgumentError(
            f"{question.where}(background): entry {entry} is not finite",
            remedy="leave such rows out, or fill them in",
        )
    return found


class ValueAndSlope(NamedTuple):
    """An output and its gradient at each point."""

    values: Float[Array, " batch"]
    slopes: Array


def slopes(f: Function, x: Array, outputs: Int[Array, " batch"]) -> ValueAndSlope:
    """The chosen output of every input and its gradient by that input: one reverse pass for all."""
    values, back = jax.vjp(lambda x: chosen(f(x), outputs), x)
    return ValueAndSlope(values, back(jnp.ones_like(values))[0])


def chosen(out: Array, outputs: Int[Array, " batch"]) -> Float[Array, " batch"]:
    """One output of every input."""
    return out if out.ndim == 1 else jnp.take_along_axis(out, outputs[:, None], axis=-1)[:, 0]


def of_classes(
    where: str, scores: Float[Array, "batch classes"], classes: Int[Array, " batch"]
) -> Float[Array, " batch"]:
    """The score of one class of every example, refused where there is no such class."""
    check_class_numbers(where, "classes", classes, scores.shape[-1])
    return chosen(scores, classes)


def in_blocks(
    program: Callable[..., Any],
    rows: tuple[np.ndarray, ...],
    size: int,
    progress: Callable[[int], None] | None = None,
) -> Any:
    """What a program makes of arrays with a common leading axis, block by block of one size, put together again.

    The last block is filled up with its own last row, so that the program is compiled for one size only.
    """
    count = len(rows[0])
    parts = []
    for first in range(0, count, size):
        index = np.minimum(np.arange(first, first + size), count - 1)
        parts.append(jax.tree.map(np.asarray, program(*(a[index] for a in rows))))
        if progress is not None:
            progress(min(first + size, count))
    return jax.tree.map(lambda *blocks: np.concatenate(blocks)[:count], *parts)


def program_bytes(f: Function, x: np.ndarray) -> int:
    """Bytes of all values that the program of `f` makes for one input: what a reverse pass keeps at most."""
    program = jax.make_jaxpr(f)(jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype))
    return max(1, _made(program.jaxpr) + x.itemsize * math.prod(x.shape[1:]))


def _made(jaxpr: Any) -> int:
    total = 0
    for equation in jaxpr.eqns:
        inner = [_made(one.jaxpr) for one in inner_programs(equation)]
        own = sum(math.prod(v.aval.shape) * getattr(v.aval.dtype, "itemsize", 4) for v in equation.outvars)
        total += max(sum(inner), own)
    return total


@eqx.filter_jit
def _values(f: Function, x: Array, outputs: Array) -> Array:
    return chosen(f(x), outputs)


@eqx.filter_jit
def slopes_of_block(f: Function, x: Array, outputs: Array) -> ValueAndSlope:
    """`slopes`, compiled."""
    return slopes(f, x, outputs)


def _batched(where: str, f: Function, x: np.ndarray) -> tuple[Function, np.ndarray, bool]:
    """The function of batches, the inputs as a batch, and whether they came as one input."""
    alone = _shape(f, x)
    if alone == ():
        return PerExample(f), x[None], True
    if x.ndim > 1 and alone is not None and len(alone) in (1, 2) and alone[0] == len(x):
        return f, x, False
    if x.ndim and _shape(f, x[None]) is not None:
        return adapted(where, f, x[None]), x[None], True
    return adapted(where, f, x), x, x.ndim < 2


def _shape(f: Function, x: np.ndarray) -> tuple[int, ...] | None:
    """The shape of what a function gives; none where it cannot be traced."""
    try:
        found = jax.eval_shape(f, x)
    except ChainruleError:
        raise
    except Exception:  # any function of a user's may fail in any way on inputs of another shape
        return None
    return getattr(found, "shape", None)


def _outputs(
    where: str, output: Output, count: int, rows: int, names: Sequence[str]
) -> tuple[np.ndarray, str]:
    if output is None or isinstance(output, int | str | np.integer):
        one = int(output) if isinstance(output, np.integer) else output
        number, name = choose_output(where, one, count, names)
        return np.full(rows, number), name
    numbers = np.asarray(output)
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu":
        raise ArgumentError(
            f"{where}(output): shape {numbers.shape} of type {numbers.dtype}, there are {rows} inputs",
            remedy="give one output by number, or one number for each input",
        )
    check_class_numbers(where, "output", numbers, count)
    several = len(set(numbers.tolist())) > 1
    return numbers, "output of each input" if several else choose_output(
        where, int(numbers[0]), count, names
    )[1]


__all__ = [
    "MEMORY",
    "Output",
    "PerExample",
    "Question",
    "ValueAndSlope",
    "ask",
    "checked_background",
    "checked_baseline",
    "chosen",
    "in_blocks",
    "of_classes",
    "program_bytes",
    "slopes",
    "slopes_of_block",
]
