"""NumPy's array functions on dual numbers: joining, moving, summing and multiplying entries.

Most are linear in every argument, so their derivative is the function itself on tangents. Those that choose entries
(`np.where`, `np.max`, `np.sort`) choose by values; entries that tie for a maximum share its derivative equally.
"""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.derive.dual_numbers.dual import (
    ARRAY_FUNCTIONS,
    REDUCTIONS,
    UFUNCS,
    Dual,
    is_dual,
    primal_of,
    select,
    tag_of,
    tangent_of,
    unknown,
    value,
)
from chainrule.derive.dual_numbers.elementary import maximum, minimum, sinc, sqrt


def _leaves(tree: Any) -> list[Any]:
    """Numbers, arrays and duals in nested lists and tuples."""
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, list | tuple) else [tree]


def _mapped(f: Callable[[Any], Any], tree: Any) -> Any:
    return [_mapped(f, part) for part in tree] if isinstance(tree, list | tuple) else f(tree)


def _run(function: Any, *args: Any, **options: Any) -> Any:
    """NumPy's function, or JAX's where an argument is JAX's."""
    leaves = _leaves(args)
    inside = any(isinstance(leaf, jax.Array) for leaf in leaves) and not any(map(is_dual, leaves))
    return (getattr(jnp, function.__name__) if inside else function)(*args, **options)


def _change(x: Any, tag: int) -> Any:
    """What stands in front of the ε of that tag, as large as the number."""
    if tag_of(x) >= tag:
        return tangent_of(x, tag)
    return (jnp if isinstance(x, jax.Array) else np).zeros_like(value(x), dtype=float)


def _linear(function: Any) -> Callable[..., Any]:
    """A function that is linear in its first argument, one array or a list of them; the others say where and how."""

    def apply(x: Any, *args: Any, **options: Any) -> Any:
        if any(map(is_dual, _leaves((args, list(options.values()))))) or options.get("out") is not None:
            raise unknown(function.__name__)
        tag = max(map(tag_of, _leaves(x)))
        if tag == 0:
            return _run(function, x, *args, **options)
        values = _run(function, _mapped(lambda leaf: primal_of(leaf, tag), x), *args, **options)
        slopes = _run(function, _mapped(lambda leaf: _change(leaf, tag), x), *args, **options)
        if isinstance(values, list | tuple):  # the parts of a split
            return [Dual(a, b, tag) for a, b in zip(values, slopes, strict=True)]
        return Dual(values, slopes, tag)

    return apply


def _multilinear(function: Any) -> Callable[..., Any]:
    """A function that is linear in each argument that is a dual number: the product rule."""

    def apply(*args: Any, **options: Any) -> Any:
        if options.get("out") is not None:
            raise unknown(function.__name__)
        tag = max(map(tag_of, args))
        primals = [primal_of(arg, tag) for arg in args]
        slopes = [
            _run(function, *primals[:i], tangent_of(arg, tag), *primals[i + 1 :], **options)
            for i, arg in enumerate(args)
            if tag_of(arg) == tag
        ]
        return Dual(_run(function, *primals, **options), functools.reduce(operator.add, slopes), tag)

    return apply


def _by_value(function: Any) -> Callable[..., Any]:
    """A question, or something with the shape of its argument."""
    return lambda *args, **options: _run(function, *_mapped(value, args), **options)


def _largest(function: Any) -> Callable[..., Any]:
    def apply(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if not is_dual(x):
            return _run(function, x, axis=axis, keepdims=keepdims)
        ties = 1.0 * (value(x) == _run(function, value(x), axis=axis, keepdims=True))
        share = ties / ties.sum(axis=axis, keepdims=True)
        slope = _linear(np.sum)(x.tangent * share, axis=axis, keepdims=keepdims)
        return Dual(apply(x.primal, axis, keepdims=keepdims), slope, x.tag)

    return apply


def _where(condition: Any, *branches: Any) -> Any:
    if len(branches) != 2:
        raise unknown("where")
    # Branches may be numbers; the result has the shape of all three.
    shape = np.broadcast_shapes(*(np.shape(value(one)) for one in (condition, *branches)))
    spread = lambda x: x if np.shape(value(x)) == shape else ARRAY_FUNCTIONS[np.broadcast_to](x, shape)  # noqa: E731
    return select(value(condition), *map(spread, branches))


def _clip(x: Any, a_min: Any = None, a_max: Any = None, **bounds: Any) -> Any:
    low, high = bounds.pop("min", a_min), bounds.pop("max", a_max)
    if bounds:
        raise unknown("clip")
    above = x if low is None else maximum(x, low)
    return above if high is None else minimum(above, high)


def _sort(x: Any, axis: int = -1) -> Any:
    order = _run(np.argsort, value(x), axis=axis)
    return ARRAY_FUNCTIONS[np.take_along_axis](x, order, axis)


def _along(x: Any, axis: int | None) -> list[Dual]:
    if axis is None:
        x, axis = ARRAY_FUNCTIONS[np.ravel](x), 0
    return list(ARRAY_FUNCTIONS[np.moveaxis](x, axis, 0))


def _prod(x: Any, axis: int | None = None) -> Any:
    return functools.reduce(operator.mul, _along(x, axis), 1.0)


def _cumprod(x: Any, axis: int | None = None) -> Any:
    products: list[Any] = []
    for part in _along(x, axis):
        products.append(products[-1] * part if products else part)
    return ARRAY_FUNCTIONS[np.stack](products, axis=0 if axis is None else axis)


def _round(x: Any, decimals: int = 0) -> Any:
    """Constant on either side of its steps."""
    return 0.0 * x + _run(np.round, value(x), decimals)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The Euclidean length; at zero, a kink, the mean over directions, zero."""
    if ord is not None and (ord != 2 or np.ndim(value(x)) != 1):
        raise unknown("linalg.norm")
    squares = ARRAY_FUNCTIONS[np.sum](x * x, axis=axis, keepdims=keepdims)
    nowhere = value(squares) == 0
    return select(nowhere, 0.0 * squares, sqrt(select(nowhere, 1.0, squares)))


def _append(x: Any, y: Any, axis: int | None = None) -> Any:
    parts = [ARRAY_FUNCTIONS[np.ravel](one) for one in (x, y)] if axis is None else [x, y]
    return ARRAY_FUNCTIONS[np.concatenate](parts, axis=axis or 0)


def _var(x: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    apart = x - ARRAY_FUNCTIONS[np.mean](x, axis=axis, keepdims=True)
    total = ARRAY_FUNCTIONS[np.sum](abs(apart) ** 2, axis=axis, keepdims=keepdims)
    return total / (np.size(value(x)) / max(np.size(value(total)), 1) - ddof)


def _pad(x: Any, width: Any, mode: str = "constant") -> Any:
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise unknown(f"pad(mode={mode!r})")
    return _linear(np.pad)(x, width, mode=mode)


ARRAY_FUNCTIONS |= {
    function: _linear(function)
    for function in (
        *(np.concatenate, np.stack, np.vstack, np.hstack, np.dstack, np.column_stack),
        *(np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit),
        *(np.reshape, np.ravel, np.squeeze, np.expand_dims, np.broadcast_to, np.atleast_1d, np.atleast_2d),
        *(np.transpose, np.swapaxes, np.moveaxis, np.flip, np.fliplr, np.flipud, np.rot90, np.roll),
        *(np.repeat, np.tile, np.take, np.take_along_axis, np.diag, np.diagonal, np.triu, np.tril),
        *(np.sum, np.mean, np.cumsum, np.diff, np.ediff1d, np.trace, np.real, np.imag, np.trapezoid),
        *(np.copy, np.delete, np.diagflat, np.atleast_3d, np.rollaxis, np.matrix_transpose),
        *(np.average, np.gradient),
    )
}
ARRAY_FUNCTIONS |= {
    function: _multilinear(function)
    for function in (
        *(np.dot, np.vdot, np.inner, np.outer, np.tensordot, np.kron),
        *(np.cross, np.convolve, np.correlate, np.einsum),
    )
}
UFUNCS |= {  # products of stacks, as far as this NumPy has them
    vars(np)[name]: _multilinear(vars(np)[name])
    for name in ("vecdot", "matvec", "vecmat")
    if name in vars(np)
}
ARRAY_FUNCTIONS |= {
    function: _by_value(function)
    for function in (
        *(np.shape, np.ndim, np.size, np.zeros_like, np.ones_like, np.full_like, np.empty_like),
        *(np.argmax, np.argmin, np.argsort, np.any, np.all, np.isclose, np.allclose, np.array_equal),
        *(np.nonzero, np.flatnonzero, np.argwhere, np.count_nonzero, np.searchsorted, np.digitize),
        *(np.iscomplexobj, np.isrealobj, np.result_type),
    )
}
ARRAY_FUNCTIONS |= {
    np.where: _where,
    np.clip: _clip,
    np.sort: _sort,
    np.prod: _prod,
    np.cumprod: _cumprod,
    np.pad: _pad,
    np.round: _round,
    np.around: _round,
    np.linalg.norm: _norm,
    np.sinc: sinc,
    np.append: _append,
    np.fix: lambda x: UFUNCS[np.trunc](x),
    np.var: _var,
    np.std: lambda x, axis=None, *, ddof=0, keepdims=False: sqrt(_var(x, axis, ddof=ddof, keepdims=keepdims)),
    np.ptp: lambda x, axis=None: ARRAY_FUNCTIONS[np.max](x, axis) - ARRAY_FUNCTIONS[np.min](x, axis),
    np.max: _largest(np.max),
    np.amax: _largest(np.max),
    np.min: _largest(np.min),
    np.amin: _largest(np.min),
}
REDUCTIONS |= {
    (np.add, "reduce"): ARRAY_FUNCTIONS[np.sum],
    (np.add, "accumulate"): ARRAY_FUNCTIONS[np.cumsum],
    (np.multiply, "reduce"): _prod,
    (np.multiply, "accumulate"): _cumprod,
    (np.maximum, "reduce"): ARRAY_FUNCTIONS[np.max],
    (np.minimum, "reduce"): ARRAY_FUNCTIONS[np.min],
}

__all__: list[str] = []
