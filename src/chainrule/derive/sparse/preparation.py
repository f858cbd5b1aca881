"""Preparation of sparse Jacobians and Hessians: detect the pattern, colour it, certify the result, once."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import jax
import scipy.sparse

from chainrule.core.errors import ArgumentError, CapabilityError, ChainruleError, check_choice
from chainrule.core.types import Tree
from chainrule.derive import flattening, validation
from chainrule.derive.dense.planning import NoRuleError
from chainrule.derive.sparse import strategy
from chainrule.derive.sparse.certificate import POINTS, is_moved
from chainrule.derive.sparse.coloring.compiled import one_task
from chainrule.derive.sparse.compressed_products import CompressedProducts, forward_product, reverse_product
from chainrule.derive.sparse.compression import restricted
from chainrule.derive.sparse.detection import Detected, Guard
from chainrule.derive.sparse.detection.detector import analyse_signed
from chainrule.derive.sparse.formats import FORMATS
from chainrule.derive.sparse.patterns import Pattern
from chainrule.derive.sparse.report import MemoryUse, SparseReport
from chainrule.derive.sparse.signature import Held, Signature, Valued, signed
from chainrule.derive.sparse.sparse_derivative import SparseDerivative
from chainrule.derive.sparse.traced_function import TracedFunction, traced_function

JACOBIAN_METHODS = ("column", "row", "bidirectional", "bidirectional-acyclic")
HESSIAN_METHODS = ("star", "acyclic", "column")
PARTS = ("full", "lower", "upper")


def jacobian(
    f: Any,
    x: Tree,
    method: str = "auto",
    format: str = "bcoo",
    local: bool = False,
    *,
    args: Any = (),
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    pattern: Any = None,
    order: Any = "auto",
    seed: int = 0,
    budget: float = 0.2,
    certify: bool = True,
) -> SparseDerivative:
    """The sparse Jacobian of `f(x, *args)`, prepared for arguments like these; call the result with others.

    `args` are further arguments of `f`: parameters, a time. The pattern holds for every value of them, and calls
    `J(x, *args)` with other values compile nothing. (Whole numbers, texts and functions among them are part of the
    program and cannot change.) `argnums` says which of `(x, *args)` are differentiated: one, or several whose columns
    then stand side by side. With `has_aux=True` the function returns `(value, extra)` and calls return
    `(Jacobian, extra)`; `holomorphic=True` is for complex points.

    Rows are the entries of what `f` returns and columns those of `x`, both flattened in the order of their leaves.
    Methods: "column" (forward products), "row" (reverse products), "bidirectional" (both),
    "bidirectional-acyclic" (both, entries by substitution), "auto" (the cheapest of the first three).
    Formats: "bcoo" and "bcsr" (JAX), "csr" and "csc" (SciPy), "dense", "values" (a vector in the order of `.pattern`).

    `pattern` (a `Pattern`, a SciPy sparse matrix, or what `analyse` found) takes the place of detection. `local=True`
    finds the pattern at `x` only, which may be smaller; every call then checks that it still holds. `order`, `seed` and
    `budget` (seconds for each method tried) go to `color`; `certify=False` leaves out the comparison with plain
    products.

    >>> import jax.numpy as jnp
    >>> J = jacobian(lambda x: jnp.diff(x**2), jnp.arange(5.0), format="dense")
    >>> J.coloring.num_colors
    2
    >>> J(jnp.ones(5))[0]
    Array([-2.,  2.,  0.,  0.,  0.], dtype=float32)
    """
    check_choice("sparse.jacobian", "method", method, ("auto", *JACOBIAN_METHODS))
    search = strategy.Search(order, seed, budget)
    signature = signed("sparse.jacobian", x, args, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return _prepare("jacobian", f, signature, method, format, "full", local, pattern, search, certify)


def hessian(
    f: Any,
    x: Tree,
    method: str = "auto",
    format: str = "bcoo",
    local: bool = False,
    *,
    args: Any = (),
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    pattern: Any = None,
    part: str = "full",
    order: Any = "auto",
    seed: int = 0,
    budget: float = 0.2,
    certify: bool = True,
) -> SparseDerivative:
    """The sparse Hessian of a function `f(x, *args)` with one number as its value, prepared for arguments like these.

    Methods: "star" (entries read directly), "acyclic" (fewer products, entries by substitution), "column" (no use of
    symmetry), "auto". `part` "lower" or "upper" gives one triangle, with the diagonal. Everything else is as in
    `jacobian`; products are forward over reverse.

    >>> import jax.numpy as jnp
    >>> H = hessian(lambda x: jnp.sum(x[1:] ** 2 * x[:-1]), jnp.arange(4.0), format="csr")
    >>> H(jnp.ones(4)).toarray()[0]
    array([0., 2., 0., 0.], dtype=float32)
    """
    check_choice("sparse.hessian", "method", method, ("auto", *HESSIAN_METHODS))
    check_choice("sparse.hessian", "part", part, PARTS)
    search = strategy.Search(order, seed, budget)
    signature = signed("sparse.hessian", x, args, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return _prepare("hessian", f, signature, method, format, part, local, pattern, search, certify)


@final
@dataclass(frozen=True)
class _Request:
    """What the user wants, checked."""

    what: str
    f: Callable[..., Any]
    function: TracedFunction
    signature: Signature
    x: Tree
    held: Held
    method: str
    format: str
    part: str
    local: bool
    search: strategy.Search
    forward_gradient: bool = False
    """Whether gradients are taken by forward mode, where there is no rule for the other."""

    @property
    def inner(self) -> Valued:
        """What is differentiated once more: the function, or its gradient."""
        if self.what == "jacobian":
            return self.function.value
        return self.signature.gradient(self.function.value, forward=self.forward_gradient)

    @property
    def outputs(self) -> Tree:
        """Shapes of what that returns."""
        return self.signature.inputs if self.what == "hessian" else self.function.outputs

    @property
    def shape(self) -> tuple[int, int]:
        """Of the derivative."""
        return flattening.size(self.outputs), flattening.size(self.signature.inputs)

    def prices(self) -> tuple[float, float]:
        """Operations of one forward and one reverse product."""
        signature = self.signature
        rows, columns = (jax.ShapeDtypeStruct((size,), signature.dtype) for size in self.shape)
        at = signature.inputs, signature.held
        forward = strategy.operations(partial(forward_product, self.inner), *at, columns)
        return forward, strategy.operations(partial(reverse_product, self.inner), *at, rows)


def _prepare(
    what: str,
    f: Any,
    call: tuple[Signature, Tree, Held],
    method: str,
    format: str,
    part: str,
    local: bool,
    given: Any,
    search: strategy.Search,
    certify: bool,
) -> SparseDerivative:
    where = f"sparse.{what}"
    validation.function(where, f)
    check_choice(where, "format", format, FORMATS)
    signature, x, held = call
    traced = [
        name
        for name, part in (("x", x), ("args", held))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(part))
    ]
    if (certify or local) and traced:
        raise _inside(where, f"{' and '.join(traced)} {'is' if traced == ['x'] else 'are'}")
    seconds: dict[str, float] = {}
    with _timed(seconds, "trace"):
        function = traced_function(what, f, signature)
    request = _Request(what, f, function, signature, x, held, method, format, part, local, search)
    with _timed(seconds, "detect" if given is None else "pattern"):
        found = _found(request, given)
    with _timed(seconds, "colour"):
        chosen = _choose(request, found.pattern)
    with _timed(seconds, "compile"):
        made, chosen = _compiled(request, chosen, found.guard)
    notes = [f"treated as depending on everything: {', '.join(found.dense)}"] if found.dense else []
    certificate = ""
    if certify:
        with _timed(seconds, "certify"):
            try:
                outcome = made.certify(x, held, search.seed)
            except jax.errors.TracerArrayConversionError as error:
                raise _inside(where, "f closes over values that are") from error
        certificate = f"equal to {outcome.products} plain products in random directions, at {POINTS} points"
        if held and not local:
            certificate += _about_held(held, given=given is not None)
        if outcome.unchecked:
            notes.append(
                f"{outcome.unchecked} rows or columns were not finite at the points tried: not checked"
            )
    else:
        notes.append("not certified")
    memory = made.memory(*(() if traced else signature.join(x, held)))
    made.report = report(what, chosen, tuple(notes), seconds, memory, certificate)
    return made


def _about_held(held: Held, *, given: bool) -> str:
    """Which values of args the certificate speaks of: a detected pattern holds for all, a given one may not."""
    moved = [is_moved(leaf) for leaf in held]
    about = "" if not any(moved) else " and other values of args"
    if not given:
        return about
    return f"{about}; zeros and whole numbers in args were those given, so it speaks of no others"


def _inside(where: str, what: str) -> CapabilityError:
    return CapabilityError(
        f"{where}: {what} traced (inside jit, vmap or grad), so there are no numbers to check the pattern with",
        remedy="prepare it once outside, for these shapes, and call it inside (what changes goes in args=);\n"
        "or prepare it without the check (certify=False, local=False)",
    )


@contextlib.contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[phase] = time.perf_counter() - began


def _found(request: _Request, given: Any) -> Detected:
    """The pattern, from the user or from the program, with the guard of a local one."""
    if given is None:
        return analyse_signed(
            request.f,
            request.signature,
            request.x,
            request.held,
            request.what,
            request.local,
            function=request.function,
        )
    if isinstance(given, Detected):
        found = given
    elif scipy.sparse.issparse(given):
        found = Detected(Pattern.from_scipy(given), None, (), {})
    elif isinstance(given, Pattern):
        found = Detected(given, None, (), {})
    else:
        raise ArgumentError(
            f"sparse.{request.what}(pattern={type(given).__name__}): a Pattern or a SciPy sparse matrix is needed"
        )
    if found.pattern.shape != request.shape:
        raise ArgumentError(
            f"sparse.{request.what}: the pattern has shape {found.pattern.shape}, "
            f"the {request.what} has shape {request.shape}",
            remedy="rows are the entries of the output, columns those of the input",
        )
    if request.local and found.guard is None:
        raise ArgumentError(
            f"sparse.{request.what}(local=True): nothing tells where the given pattern holds",
            remedy="leave pattern= out, or pass what analyse(f, x, local=True) found",
        )
    return found


def _choose(request: _Request, pattern: Pattern) -> strategy.Choice:
    with one_task():
        if request.method != "auto":
            return strategy.requested(pattern, request.method, request.search)
        if request.what == "hessian":
            return strategy.for_hessian(pattern, request.search)
        return strategy.for_jacobian(pattern, request.search, request.prices)


def _compiled(
    request: _Request, chosen: strategy.Choice, guard: Guard | None
) -> tuple[SparseDerivative, strategy.Choice]:
    """The derivative, compiled; where the function has no rule for one direction, by the other."""
    try:
        return _build(request, chosen, guard), chosen
    except strategy.MISSING_RULE as error:
        if isinstance(error, ChainruleError) or not chosen.recipe.products:
            raise
        why = str(error).splitlines()[0]
        if request.what == "hessian":
            request = replace(request, forward_gradient=True)
            chosen = replace(chosen, reason=f"{chosen.reason}; gradients by forward mode ({why})")
        elif request.method != "auto":
            raise NoRuleError(
                f'sparse.jacobian(method="{request.method}"): {why}',
                remedy='method="auto" takes a method that the function has rules for',
            ) from error
        else:
            missing, other = ("forward", "row") if chosen.recipe.forward else ("reverse", "column")
            chosen = strategy.requested(chosen.coloring.pattern, other, request.search)
            chosen = replace(chosen, reason=f"the function has no {missing} rule ({why})")
    try:
        return _build(request, chosen, guard), chosen
    except strategy.MISSING_RULE as error:
        raise NoRuleError(
            f"sparse.{request.what}: no mode can differentiate the function",
            remedy=f"one: {why}\nthe other: {str(error).splitlines()[0]}",
        ) from error


def _build(request: _Request, chosen: strategy.Choice, guard: Guard | None) -> SparseDerivative:
    plan = CompressedProducts(
        request.inner, request.outputs, restricted(chosen.recipe, request.part), request.signature.dtype
    )
    made = SparseDerivative(
        request.what, request.f, plan, chosen, request.signature, request.format, request.part, guard
    )
    made.compile(request.x, request.held)
    return made


def report(
    what: str,
    chosen: strategy.Choice,
    notes: tuple[str, ...],
    seconds: dict[str, float],
    memory: MemoryUse,
    certificate: str = "",
) -> SparseReport:
    """The report of a prepared derivative."""
    recipe, coloring = chosen.recipe, chosen.coloring
    kinds = {"second-order" if what == "hessian" else "forward": recipe.forward, "reverse": recipe.reverse}
    return SparseReport(
        what=what,
        shape=coloring.pattern.shape,
        nnz=coloring.pattern.nnz,
        method=coloring.method,
        order=coloring.order,
        products={kind: count for kind, count in kinds.items() if count},
        lower_bound=coloring.lower_bound,
        reason=chosen.reason,
        colors={name: counts for name, counts in chosen.colors.items() if counts},
        depth=0 if recipe.substitution is None else recipe.substitution.depth,
        certificate=certificate,
        chunk=memory.chunk,
        result_bytes=memory.result_bytes,
        peak_bytes=memory.peak_bytes,
        notes=notes,
        seconds=seconds,
    )


__all__ = ["HESSIAN_METHODS", "JACOBIAN_METHODS", "PARTS", "hessian", "jacobian"]
