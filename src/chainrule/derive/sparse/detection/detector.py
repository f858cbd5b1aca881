"""Detection of the sparsity pattern of a Jacobian or Hessian from the program of the function, without running it."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np
import scipy.sparse

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Tree
from chainrule.derive import memory_budget as budgets
from chainrule.derive import validation
from chainrule.derive.jaxprs.refusals import MISSING_RULE, NEEDS_VALUES
from chainrule.derive.sparse.detection import rules, tables, unrolling
from chainrule.derive.sparse.detection import values as values_of
from chainrule.derive.sparse.detection.analysis import Analysis, Dependence, Notes, Tracked
from chainrule.derive.sparse.detection.guard import Guard
from chainrule.derive.sparse.detection.reach import NOTHING, Reach, seed
from chainrule.derive.sparse.detection.tables import InputSets, TooLarge
from chainrule.derive.sparse.detection.values import LocalPoint
from chainrule.derive.sparse.patterns import Pattern
from chainrule.derive.sparse.signature import Held, Signature, Valued, signed
from chainrule.derive.sparse.traced_function import TracedFunction

_PIECES = (1, 4, 16, 64)
"""In how many pieces the inputs are taken, as long as memory does not suffice."""
_PATTERN_BYTES = 16
"""Per entry of a pattern: row, column and what building it needs."""

_REMEDY = "give it more memory (memory=...), or pass a pattern you know"


@final
@dataclass(frozen=True)
class Detected:
    """A pattern with what is worth knowing about how it was found."""

    pattern: Pattern
    guard: Guard | None
    """For a local pattern: tells where it holds."""
    dense: tuple[str, ...]
    """Operations that were treated as depending on everything."""
    seconds: dict[str, float]
    """Time by phase: tracing the function, walking its program."""


def detect(
    f: Any,
    x: Tree,
    of: str = "jacobian",
    local: bool = False,
    *,
    args: Any = (),
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    memory: str | int | None = None,
) -> Pattern:
    """The positions where a derivative of `f(x, *args)` may be different from zero.

    Rows are the elements of the result of `f` (of its gradient, for `of="hessian"`), columns those of `x`, both in the
    order of `jax.flatten_util.ravel_pytree`. `args`, `argnums`, `has_aux` and `holomorphic` are those of
    `sparse.jacobian`. The pattern holds for every `x` and all `args` of the same shapes; with `local=True` only
    where all conditions and indices come out as they do at this one (`analyse` also gives the guard that tells). It is
    never too small: an operation that cannot be looked into counts as depending on everything, and is named in a
    `DenseDetectionWarning`. Products with a known zero count as zero, whatever the other factor. `memory` bounds what
    detection may use at once, as a number of bytes or a text such as "2GiB"; the default is a quarter of what is free.

    >>> import jax.numpy as jnp
    >>> print(detect(lambda x: x[1:] * x[:-1], jnp.ones(4)).to_scipy().toarray().astype(int))
    [[1 1 0 0]
     [0 1 1 0]
     [0 0 1 1]]
    >>> detect(lambda x: jnp.sum(x**3), jnp.ones(4), of="hessian").nnz
    4
    """
    call = signed("detect", x, args, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return analyse_signed(f, *call, of, local, memory).pattern


def analyse(
    f: Any,
    x: Tree,
    of: str = "jacobian",
    local: bool = False,
    *,
    args: Any = (),
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    memory: str | int | None = None,
) -> Detected:
    """`detect`, with the guard of a local pattern, the operations treated as dense and the time it took.

    >>> import jax.numpy as jnp
    >>> found = analyse(lambda x: jnp.where(x > 0, x**2, 0.0), -jnp.ones(2), local=True)
    >>> found.pattern.nnz, bool(found.guard.holds(jnp.ones(2)))
    (0, False)
    """
    call = signed("detect", x, args, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return analyse_signed(f, *call, of, local, memory)


def analyse_signed(
    f: Any,
    signature: Signature,
    x: Tree,
    held: Held,
    of: str,
    local: bool,
    memory: str | int | None = None,
    function: TracedFunction | None = None,
) -> Detected:
    """`analyse` for arguments that have been looked at, and perhaps a function that has been traced."""
    check_choice("detect", "of", of, ["jacobian", "hessian"])
    if not callable(f):
        raise ArgumentError(f"detect(f={f!r}): f must be a function")
    x, held = signature.admit(signature.join(x, held))
    if local:
        validation.numbers("detect(local=True)", x)
        validation.numbers("detect(local=True)", held, "args")
    allowed = budgets.parse("detect", memory)
    began = time.perf_counter()
    program, square = _program(f, function, signature, x, held, of)
    traced = time.perf_counter()
    search = _Search(program, jax.tree.leaves(x), held, LocalPoint() if local else None, allowed)
    token = tables.budget.set(allowed)
    try:
        pattern = search.pattern()
    finally:
        tables.budget.reset(token)
    if of == "hessian":
        pattern = _symmetric(pattern) if square else _grid(pattern)
    search.notes.emit("detect")
    seconds = {"trace": traced - began, "walk": time.perf_counter() - traced}
    guard = search.guard(signature) if local else None
    return Detected(pattern, guard, tuple(search.notes.dense), seconds)


def _program(
    f: Callable[..., Any],
    function: TracedFunction | None,
    signature: Signature,
    x: Tree,
    held: Held,
    of: str,
) -> tuple[Any, bool]:
    """The program to walk, from point and held arrays, and whether its Jacobian is the derivative asked for."""
    value = signature.value(f) if function is None else function.value
    try:
        if of == "hessian":
            return _gradient_program(signature, value, x, held)
        if function is not None and not signature.has_aux:
            return function.program, True
        if signature.plain and _can_be_remembered(f):
            return jax.make_jaxpr(f)(x), True
        return jax.make_jaxpr(lambda x, held: value(x, held)[0])(x, held), True
    except NEEDS_VALUES as error:
        raise ArgumentError(
            "detect: f branches in Python on a value it computes, so it is not one program",
            remedy="use jnp.where or jax.lax.cond, or mark the value static by closing over it",
        ) from error


def _gradient_program(signature: Signature, value: Valued, x: Tree, held: Held) -> tuple[Any, bool]:
    def scalar(x: Tree, held: Held) -> Any:
        y, _ = value(x, held)
        validation.scalar_output("detect", y, holomorphic=signature.holomorphic)
        return jax.tree.leaves(y)[0]

    try:
        return jax.make_jaxpr(jax.grad(scalar, holomorphic=signature.holomorphic))(x, held), True
    except ArgumentError:
        raise
    except MISSING_RULE:
        rewritten = _without_while(signature, scalar, x, held)
        if rewritten is not None:
            return rewritten, True
        # No reverse mode at all. The slope along an unknown direction still tells which inputs appear in second
        # derivatives; every two of them may meet.
        ones = jax.tree.map(lambda a: np.ones(a.shape, a.dtype), x)
        slope = jax.make_jaxpr(lambda x, held, v: jax.jvp(lambda z: scalar(z, held), (x,), (v,))[1])
        try:
            return slope(x, held, ones), False
        except MISSING_RULE:  # nor forward mode: every two inputs of the value itself
            return jax.make_jaxpr(scalar)(x, held), False


def _without_while(signature: Signature, scalar: Callable[..., Any], x: Tree, held: Held) -> Any:
    """The program of the gradient with loops rewritten, if that is what it takes; it gets unknown truth values last."""
    program = jax.make_jaxpr(scalar)(x, held)
    if not unrolling.has_loop(program):
        return None

    def rewritten(x: Tree, held: Held, perhaps: Any) -> Any:
        return unrolling.run(program, jax.tree.leaves((x, held)), perhaps)[0]

    gradient = jax.make_jaxpr(jax.grad(rewritten, holomorphic=signature.holomorphic))
    try:
        return gradient(x, held, np.zeros(unrolling.STEPS, dtype=bool))
    except (unrolling.NotClosed, *MISSING_RULE):
        return None


def _can_be_remembered(f: Callable[[Any], Any]) -> bool:
    """JAX keeps the programs of functions that can be hashed, so that a second trace costs nothing."""
    try:
        hash(f)
    except TypeError:
        return False
    return True


@final
class _Search:
    """One detection: the program, its inputs, and what is learned on the way."""

    def __init__(
        self, program: Any, leaves: Sequence[Any], held: Held, point: LocalPoint | None, allowed: int
    ) -> None:
        self.program = program
        self.leaves = leaves
        self.point = point
        self.allowed = allowed
        self.width = sum(leaf.size for leaf in leaves)
        self.height = sum(atom.aval.size for atom in program.jaxpr.outvars)
        self.notes = Notes()
        self.sources = [
            values_of.source(atom.aval, leaf if point is not None else None, point)
            for atom, leaf in zip(program.jaxpr.invars, [*leaves, *held], strict=False)
        ]
        """Of the point, then of what is held: nothing is followed from there, but nothing is known of it either."""

    def pattern(self) -> Pattern:
        """Walk the program, in several pieces of the inputs if memory asks for it."""
        for pieces in _PIECES:
            try:
                edges = np.linspace(0, self.width, pieces + 1).astype(np.int64)
                parts: list[InputSets] = []
                for a, b in itertools.pairwise(edges):
                    if a < b:
                        parts.append(self._rows(int(a), int(b)))
                        self._check(parts, int(b))
                table = tables.unite(parts, self.width) if parts else self._stack([])
                return Pattern.from_csr(table.indptr, table.indices, (self.height, self.width))
            except (TooLarge, MemoryError):
                continue
        return self._full()

    def guard(self, signature: Signature) -> Guard:
        """The guard of a local pattern."""
        assert self.point is not None
        return Guard(self.sources, list(self.point.selectors.values()), signature)

    def _rows(self, first: int, last: int) -> InputSets:
        """What every output depends on among the inputs `first` to `last`."""
        cells, start = [], 0
        moving, held = self.sources[: len(self.leaves)], self.sources[len(self.leaves) :]
        for atom, source in zip(self.program.jaxpr.invars, moving, strict=False):
            reach = seed(self.width, tuple(atom.aval.shape), start)
            if reach is not None and (start < first or start + atom.aval.size > last):
                reach = reach.map(lambda i: np.where((i >= first) & (i < last), i, NOTHING))
            cells.append(Tracked(source, reach))
            start += atom.aval.size
        cells += [Tracked(source, None) for source in held]
        directions = self.program.jaxpr.invars[len(cells) :]
        cells += [Tracked(values_of.unknown(atom.aval), None) for atom in directions]
        found = Analysis(self.width, Dependence.SLOPES, self.notes).walk(self.program, cells)
        return self._stack([cell.reach for cell in found])

    def _stack(self, reaches: Sequence[Reach | None]) -> InputSets:
        atoms = self.program.jaxpr.outvars
        if len(reaches) == 1 and reaches[0] is not None:
            return reaches[0].table()
        starts, indices, offset = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int32)], 0
        for atom, reach in zip(atoms, reaches or [None] * len(atoms), strict=True):
            if reach is None:
                starts.append(np.full(atom.aval.size, offset))
                continue
            table = reach.table()
            starts.append(table.indptr[1:] + offset)
            indices.append(table.indices)
            offset += table.nnz
        return InputSets(np.concatenate(starts), np.concatenate(indices))

    def _check(self, parts: Sequence[InputSets], done: int) -> None:
        """Refuse as soon as the entries found among the first inputs do not fit."""
        found = sum(part.nnz for part in parts)
        if found * _PATTERN_BYTES > self.allowed:
            budgets.refuse(
                "detect",
                f"the pattern has {found:,} entries in the first {done:,} of {self.width:,} columns; all of it",
                found * _PATTERN_BYTES * self.width // done,
                self.allowed,
                _REMEDY,
            )

    def _full(self) -> Pattern:
        """Every entry, because finding fewer would take more memory than there is."""
        self.notes.warn("detect", f"would need more than {self.allowed} bytes to follow")
        budgets.check_output(
            "detect",
            self.height * self.width,
            _PATTERN_BYTES,
            self.allowed,
            _REMEDY,
        )
        starts = np.arange(self.height + 1, dtype=np.int64) * self.width
        indices = np.tile(np.arange(self.width, dtype=np.int32), self.height)
        return Pattern.from_csr(starts, indices, (self.height, self.width))


def _symmetric(pattern: Pattern) -> Pattern:
    """The pattern and its mirror image: they differ only where a rule written by hand is not a gradient's."""
    if pattern.nnz == pattern.shape[0] * pattern.shape[1]:
        return pattern
    values = np.empty(pattern.nnz, dtype=np.int8)
    mirror = scipy.sparse.csr_array((values, pattern.cols, pattern.indptr), shape=pattern.shape).tocsc()
    if np.array_equal(mirror.indptr, pattern.indptr) and np.array_equal(mirror.indices, pattern.cols):
        return pattern
    rows, cols = pattern.rows, pattern.cols
    return Pattern(np.concatenate([rows, cols]), np.concatenate([cols, rows]), pattern.shape)


def _grid(pattern: Pattern) -> Pattern:
    """Every pair of the inputs that appear."""
    inputs = np.unique(pattern.cols)
    size = pattern.shape[1]
    return Pattern(np.repeat(inputs, len(inputs)), np.tile(inputs, len(inputs)), (size, size))


__all__ = ["Detected", "analyse", "analyse_signed", "detect", "rules"]
