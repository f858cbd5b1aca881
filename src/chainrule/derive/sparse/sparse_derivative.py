"""Prepared sparse derivatives: detected, coloured and certified once, then called like functions."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from chainrule.core import notebook
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Tree
from chainrule.derive import validation
from chainrule.derive.jaxprs.refusals import MISSING_RULE
from chainrule.derive.sparse import certificate, formats
from chainrule.derive.sparse.coloring.result import Coloring
from chainrule.derive.sparse.compressed_products import (
    CompressedProducts,
    Tables,
)
from chainrule.derive.sparse.compression import mirrored
from chainrule.derive.sparse.detection.guard import Guard
from chainrule.derive.sparse.patterns import Pattern
from chainrule.derive.sparse.report import MemoryUse, SparseReport
from chainrule.derive.sparse.signature import Held, Signature
from chainrule.derive.sparse.strategy import Choice


@final
class SparseDerivative:
    """A sparse Jacobian or Hessian of one function for one kind of arguments; call it with those of the function.

    With `has_aux` a call returns (derivative, extra). `.pattern`, `.coloring` and `.report` tell what was found. It
    works under `jit`, `vmap` and further derivatives. SciPy's matrices ("csr", "csc") live on the host and cannot be
    made inside a transformation: there use `.values(x)`, which works whatever the format, and `.matrix(values)`
    outside.
    """

    report: SparseReport

    def __init__(
        self,
        what: str,
        f: Callable[..., Any],
        plan: CompressedProducts,
        choice: Choice,
        signature: Signature,
        format: str,
        part: str,
        guard: Guard | None,
    ) -> None:
        self.what = what
        self.f = f
        self.format = format
        self.part = part
        """Which entries of a Hessian: "full", "lower" or "upper"."""
        self.guard = guard
        """For a local pattern: tells where it holds; every call asks it."""
        self.signature = signature
        """Which arguments move, which are held, and the kinds of their leaves."""
        self._plan = plan
        self._choice = choice
        self._maker = formats.maker(f"sparse.{what}", self.pattern, format)
        self._finish = self._maker.outside if not signature.has_aux else self._finish_first
        self._program = _Program(self, self._made)
        self._run = self._program.run

    @property
    def pattern(self) -> Pattern:
        """The positions of the entries, in the order of the values."""
        return self._plan.recipe.pattern

    @property
    def coloring(self) -> Coloring:
        """The colours in use."""
        return self._choice.coloring

    @property
    def local(self) -> bool:
        """Whether the pattern holds only near the point it was found at."""
        return self.guard is not None

    def __call__(self, x: Tree, *args: Any) -> Any:
        """The derivative at a point, in the format chosen at preparation."""
        try:
            made = self._run(x, *args)
        except TypeError:
            self.signature.require_numbers((x, *args))
            raise
        if self.guard is None:
            return self._finish(made)
        return self._finish(self.guard.require((x, *args), made))

    def values(self, x: Tree, *args: Any) -> Shaped[Array, " nnz"]:
        """The entries at a point as a vector in the order of `.pattern`; works under `jit`, `vmap` and `grad`."""
        values: Array = self._values(x, *args)
        return values if self.guard is None else self.guard.require((x, *args), values)

    def matrix(self, values: Any) -> Any:
        """A matrix in the chosen format from a vector of values."""
        values = jnp.asarray(values)
        if values.shape != (self.pattern.nnz,):
            raise ArgumentError(
                f"sparse {self.what}: {values.shape} values for a pattern of {self.pattern.nnz} entries",
                remedy="make matrices one by one from the rows of a batch of values",
            )
        return self._maker.outside(self._maker.inside(values))

    def value_and_jacobian(self, x: Tree, *args: Any) -> tuple[Tree, Any]:
        """The value and the derivative together: f and its Jacobian; for a Hessian, the gradient and the Hessian.

        With `has_aux` the first is a pair of value and extra.
        """
        both = self._with_value(x, *args)
        y, made = both if self.guard is None else self.guard.require((x, *args), both)
        return y, self._maker.outside(made)

    def verify(self, x: Tree, *args: Any) -> None:
        """Compare with plain products at this point, in both directions; raise `PatternError` with rows that differ."""
        x, held = self.signature.admit((x, *args))
        validation.numbers("verify", x)
        validation.numbers("verify", held, "args")
        products = {"rows": self._plain(self._forward)}
        if self.what == "jacobian":  # a Hessian is symmetric: the other direction says the same
            products["columns"] = self._plain(self._reverse)
        sizes = {"rows": self.pattern.shape[1], "columns": self.pattern.shape[0]}
        refused: dict[str, Exception] = {}
        for lines in [*products] if self.what == "jacobian" else []:
            try:
                products[lines]((x, held), np.zeros(sizes[lines]))
            except MISSING_RULE as error:
                refused[lines] = error
                del products[lines]
        if not products:
            raise next(iter(refused.values()))
        self._certify([(x, held)] * certificate.POINTS, products)

    def compile(self, x: Tree, held: Held) -> None:
        """Trace and compile, so that later calls only run."""
        jax.block_until_ready(self._run(*self.signature.join(x, held)))

    def memory(self, *compiled: Any) -> MemoryUse:
        """What the program takes of memory; its peak if it has been compiled, for these arguments."""
        result = self.pattern.nnz * jnp.dtype(self._plan.dtype).itemsize
        return MemoryUse(self._plan.chunk, result, self._program.peak(compiled) if compiled else None)

    def certify(self, x: Tree, held: Held, seed: int = 0) -> certificate.CertificateOutcome:
        """The certificate taken at preparation: this point and points around it, by the kinds of product in use."""
        x, held = self.signature.admit(self.signature.join(x, held))
        recipe = self._plan.recipe
        products: dict[str, certificate.Products] = {}
        if recipe.forward or not recipe.reverse:
            products["rows"] = self._plain(self._forward)
        if recipe.reverse:
            products["columns"] = self._plain(self._reverse)
        points = certificate.points_around((x, held), self._entries, local=self.local, seed=seed)
        return self._certify(points, products, seed)

    def save(self, path: str | Path) -> None:
        """Keep pattern and colours in a file; `load(path, f)` makes the same derivative without searching again."""
        from chainrule.derive.sparse.storage import save

        save(self, Path(path))

    def _made(self, x: Tree, held: Held, tables: Tables) -> Any:
        values, aux = self._plan.values(x, held, tables)
        made = self._maker.inside(values)
        return (made, aux) if self.signature.has_aux else made

    def _finish_first(self, pair: tuple[Array, Tree]) -> tuple[Any, Tree]:
        return self._maker.outside(pair[0]), pair[1]

    @functools.cached_property
    def _values(self) -> Callable[..., Array]:
        if self.format != "dense" and not self.signature.has_aux:
            return self._run
        return _Program(self, lambda *given: self._plan.values(*given)[0]).run

    @functools.cached_property
    def _with_value(self) -> Callable[..., tuple[Tree, Array]]:
        def both(*given: Any) -> tuple[Tree, Array]:
            y, aux, values = self._plan.value_and_values(*given)
            return (y, aux) if self.signature.has_aux else y, self._maker.inside(values)

        return _Program(self, both).run

    @functools.cached_property
    def _forward(self) -> Callable[..., Array]:
        return jax.jit(self._plan.forward)

    @functools.cached_property
    def _reverse(self) -> Callable[..., Array]:
        return jax.jit(self._plan.reverse)

    def _certify(
        self, points: Any, products: dict[str, certificate.Products], seed: int = 0
    ) -> certificate.CertificateOutcome:
        return certificate.certify(
            f"sparse {self.what}",
            self.coloring.pattern,
            self._entries,
            products,
            iter(points),
            self._plan.dtype,
            seed,
        )

    def _entries(self, point: certificate.Point) -> np.ndarray:
        """The entries of the whole matrix, also where only a triangle is given out."""
        made = self._run(*self.signature.join(*point))
        found = np.asarray(made[0] if self.signature.has_aux else made)
        found = found[self.pattern.rows, self.pattern.cols] if self.format == "dense" else found
        return found if self.part == "full" else found[mirrored(self.coloring.pattern, self.pattern)]

    @staticmethod
    def _plain(product: Callable[..., Array]) -> certificate.Products:
        return lambda point, direction: np.asarray(product(*point, jax.device_put(direction)))

    def __repr__(self) -> str:
        return f"sparse {self.what}: {self.pattern!r}, {self.coloring!r}, as {self.format}"

    def _repr_html_(self) -> str:
        return notebook.drawing(self.coloring.to_svg(), repr(self))


@final
class _Program:
    """A program of a prepared derivative, compiled, as a function of all arguments of the function.

    Arguments are looked at while the program is traced, so that a call of the prepared kind costs nothing more.
    """

    def __init__(self, made: SparseDerivative, program: Callable[[Tree, Held, Tables], Any]) -> None:
        signature = self._signature = made.signature
        admit = signature.admit if signature.whole else signature.admit_leaves
        self._compiled, self._rest = made._plan.compiled(lambda given, tables: program(*admit(given), tables))
        run = functools.partial(self._compiled, *self._rest) if self._rest else self._compiled
        self.run: Callable[..., Any] = (
            run if signature.whole else lambda *given: run(*signature.traced(given))
        )

    def peak(self, arguments: tuple[Any, ...]) -> int | None:
        """Bytes of results and scratch memory of the program that has been compiled for these arguments."""
        given = arguments if self._signature.whole else self._signature.traced(arguments)
        analysis = self._compiled.lower(*self._rest, *given).compile().memory_analysis()
        return analysis and analysis.output_size_in_bytes + analysis.temp_size_in_bytes


__all__ = ["SparseDerivative"]
