"""How each operation of a traced program changes what its results depend on, and how many multiply-adds it takes."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from chainrule.nn.summary.dependence import (
    Intervals,
    everything,
    merged,
    moved,
    reshaped,
    reversed_along,
    windowed,
)

Rule = Callable[[Any, Sequence[Intervals | None]], Intervals | None]
"""From an equation and what its operands depend on to what its result depends on."""


def dependence(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    """What the results of an equation depend on; an operation without a rule that changes shapes: on everything."""
    name = equation.primitive.name
    if name in _RULES:
        return _RULES[name](equation, given)
    if name.startswith("reduce_") and "axes" in equation.params:
        return _reduced(equation, given)
    together: Intervals | None = None
    for spans in given:
        together = merged(together, spans)
    shape = equation.outvars[0].aval.shape
    return together if all(_spreads(v.aval.shape, shape) for v in equation.invars) else everything(together)


def _spreads(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether an entry-by-entry operation may take such an operand: all axes alike, or of length one."""
    return not shape or (len(shape) == len(to) and all(n in (1, m) for n, m in zip(shape, to, strict=True)))


def multiply_adds(equation: Any) -> int:
    """Products that are summed up, of a matrix product or a convolution; other operations count as none."""
    name, shapes = equation.primitive.name, [v.aval.shape for v in equation.invars]
    outputs = math.prod(equation.outvars[0].aval.shape)
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        return outputs * math.prod(shapes[0][axis] for axis in contracted)
    if name == "conv_general_dilated":
        return outputs * math.prod(shapes[1]) // shapes[1][equation.params["dimension_numbers"].rhs_spec[0]]
    return 0


@final
class _Convolved(NamedTuple):
    """The settings of a convolution."""

    space: Sequence[int]
    """Axes of the input that the kernel moves over, and where they are in the output."""
    after: Sequence[int]
    batch: tuple[int, int]
    kernel: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[tuple[int, int]]
    input_dilation: Sequence[int]
    dilation: Sequence[int]


def _settings(equation: Any) -> _Convolved:
    params, weight = equation.params, equation.invars[1].aval.shape
    numbers = params["dimension_numbers"]
    kernel = [weight[axis] for axis in numbers.rhs_spec[2:]]
    settings = (params["window_strides"], params["padding"], params["lhs_dilation"], params["rhs_dilation"])
    batch = (numbers.lhs_spec[0], numbers.out_spec[0])
    return _Convolved(numbers.lhs_spec[2:], numbers.out_spec[2:], batch, kernel, *settings)


def _convolved(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    found, shape, out = _settings(equation), equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    if given[1] is not None or any(n != 1 for n in found.input_dilation):
        return everything(merged(*given))
    spans = given[0]
    columns = (found.kernel, found.stride, found.padding, found.dilation)
    for axis, new, k, s, (before, _), d in zip(found.space, found.after, *columns, strict=True):
        spans = windowed(spans, axis, (shape[axis], out[new]), k, s, before, d)
    to = dict(zip([*found.space, found.batch[0]], [*found.after, found.batch[1]], strict=True))
    return moved(spans, to.get)


def _pooled(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    params, shape, out = equation.params, equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    if any(n != 1 for n in params["base_dilation"]):
        return everything(given[0])
    spans = given[0]
    names = ("window_dimensions", "window_strides", "padding", "window_dilation")
    for axis, (k, s, (before, _), d) in enumerate(zip(*(params[name] for name in names), strict=True)):
        if (k, s) != (1, 1):
            spans = windowed(spans, axis, (shape[axis], out[axis]), k, s, before, d)
    return spans


def _multiplied(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    (contracted, batch) = equation.params["dimension_numbers"]
    ranks = [len(v.aval.shape) for v in equation.invars]
    sides, first = [], len(batch[0])
    for side, spans in enumerate(given):
        gone = {*contracted[side], *batch[side]}
        free = [axis for axis in range(ranks[side]) if axis not in gone]
        to = {axis: new for new, axis in enumerate(batch[side])}
        to |= {axis: first + new for new, axis in enumerate(free)}
        first += len(free)
        sides.append(moved(spans, to.get))
    return merged(*sides)


def _reduced(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    axes = equation.params["axes"]
    kept = [axis for axis in range(len(equation.invars[0].aval.shape)) if axis not in axes]
    return moved(given[0], lambda axis: kept.index(axis) if axis in kept else None)


def _sliced(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    spans, params = given[0], equation.params
    before, after = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    strides = params["strides"] or (1,) * len(before)
    for axis, (start, stride) in enumerate(zip(params["start_indices"], strides, strict=True)):
        if before[axis] != after[axis]:
            spans = windowed(spans, axis, (before[axis], after[axis]), stride=stride, before=-start)
    return spans


def _cut(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    # From where is known only when the program runs.
    before, after = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    return moved(given[0], lambda axis: axis if before[axis] == after[axis] else None)


def _padded(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    spans, shape, out = given[0], equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    for axis, ends in enumerate(equation.params["padding_config"]):
        low, high, between = map(int, ends)
        if between:
            return everything(spans)
        if low or high:
            spans = windowed(spans, axis, (shape[axis], out[axis]), before=low)
    return merged(spans, given[1])


def _concatenated(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    along, out = equation.params["dimension"], equation.outvars[0].aval.shape
    if sum(spans is not None for spans in given) == 1:  # beside it are constants and weights
        offset = 0
        for variable, spans in zip(equation.invars, given, strict=True):
            size = variable.aval.shape[along]
            if spans is not None:
                return windowed(spans, along, (size, out[along]), before=offset)
            offset += size
    together: Intervals | None = None
    for spans in given:
        together = merged(together, moved(spans, lambda axis: None if axis == along else axis))
    return together


def _stacked(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    new, together = equation.params["axis"], None
    for spans in given:
        together = merged(together, moved(spans, lambda axis: axis + (axis >= new)))
    return together


def _looked_up(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    if given[0] is not None:
        return everything(merged(given[0], given[1]))
    offsets = equation.params["dimension_numbers"].offset_dims
    rows = [axis for axis in range(len(equation.outvars[0].aval.shape)) if axis not in offsets]
    return moved(given[1], lambda axis: rows[axis] if axis < len(rows) else None)


def _turned(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    spans = given[0]
    for axis in equation.params["dimensions"]:
        spans = reversed_along(spans, axis, equation.invars[0].aval.shape[axis])
    return spans


def _shaped(equation: Any, given: Sequence[Intervals | None]) -> Intervals | None:
    return reshaped(given[0], equation.invars[0].aval.shape, equation.outvars[0].aval.shape)


_RULES: dict[str, Rule] = {
    "conv_general_dilated": _convolved,
    "dot_general": _multiplied,
    "reduce_window_max": _pooled,
    "reduce_window_min": _pooled,
    "reduce_window_sum": _pooled,
    "reduce_window": _pooled,
    "argmax": _reduced,
    "argmin": _reduced,
    "slice": _sliced,
    "dynamic_slice": _cut,
    "pad": _padded,
    "concatenate": _concatenated,
    "stack": _stacked,
    "gather": _looked_up,
    "rev": _turned,
    "reshape": _shaped,
    "squeeze": _shaped,
    "expand_dims": _shaped,
    "transpose": lambda e, given: moved(given[0], e.params["permutation"].index),
    "broadcast_in_dim": lambda e, given: moved(given[0], lambda a: e.params["broadcast_dimensions"][a]),
    "split": lambda e, given: moved(given[0], lambda a: None if a == e.params["axis"] else a),
    **dict.fromkeys(
        ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "sort", "top_k", "tile"),
        lambda e, given: everything(given[0]),
    ),
}

__all__ = ["dependence", "multiply_adds"]
