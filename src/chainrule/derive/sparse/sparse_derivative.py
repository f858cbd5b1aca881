"""Prepared sparse derivatives: detected, coloured and certified once, then called like functions."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import notebook
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Tree
from chainrule.derive.sparse import certificate, formats
from chainrule.derive.sparse.coloring.result import Coloring
from chainrule.derive.sparse.compressed_products import (
    CompressedProducts,
    Tables,
    forward_product,
    reverse_product,
)
from chainrule.derive.sparse.compression import mirrored
from chainrule.derive.sparse.detection.guard import Guard
from chainrule.derive.sparse.patterns import Pattern
from chainrule.derive.sparse.report import SparseReport
from chainrule.derive.sparse.strategy import MISSING_RULE, Choice


@final
class SparseDerivative:
    """A sparse Jacobian or Hessian of one function for one shape of input; call it with a point.

    `.pattern`, `.coloring` and `.report` tell what was found. It works under `jit`, `vmap` and further derivatives.
    SciPy's matrices ("csr", "csc") live on the host and cannot be made inside a transformation: there use
    `.values(x)`, which works whatever the format, and `.matrix(values)` outside.
    """

    report: SparseReport

    def __init__(
        self,
        what: str,
        f: Callable[[Any], Any],
        plan: CompressedProducts,
        choice: Choice,
        inputs: Tree,
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
        self.inputs = inputs
        """Shapes and types of the leaves of a point."""
        self._plan = plan
        self._choice = choice
        leaves, self._structure = jax.tree.flatten(inputs)
        self._leaves = [(leaf.shape, leaf.dtype) for leaf in leaves]
        self._maker = formats.maker(f"sparse.{what}", self.pattern, format)
        self._finish = self._maker.outside
        self._run = self._compiled(lambda x, tables: self._maker.inside(plan.values(x, tables)))

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

    def __call__(self, x: Tree) -> Any:
        """The derivative at a point, in the format chosen at preparation."""
        if self.guard is None:
            return self._finish(self._run(x))
        return self._finish(self.guard.require(x, self._run(x)))

    def values(self, x: Tree) -> Float[Array, " nnz"]:
        """The entries at a point as a vector in the order of `.pattern`; works under `jit`, `vmap` and `grad`."""
        values: Array = self._values(x)
        return values if self.guard is None else self.guard.require(x, values)

    def matrix(self, values: Any) -> Any:
        """A matrix in the chosen format from a vector of values."""
        values = jnp.asarray(values)
        if values.shape != (self.pattern.nnz,):
            raise ArgumentError(
                f"sparse {self.what}: {values.shape} values for a pattern of {self.pattern.nnz} entries",
                remedy="make matrices one by one from the rows of a batch of values",
            )
        return self._finish(self._maker.inside(values))

    def value_and_jacobian(self, x: Tree) -> tuple[Tree, Any]:
        """The value and the derivative together: f and its Jacobian; for a Hessian, the gradient and the Hessian."""
        both = self._with_value(x)
        y, made = both if self.guard is None else self.guard.require(x, both)
        return y, self._finish(made)

    def verify(self, x: Tree) -> None:
        """Compare with plain products at this point, in both directions; raise `PatternError` with rows that differ."""
        products = {"rows": self._plain(self._forward)}
        if self.what == "jacobian":  # a Hessian is symmetric: the other direction says the same
            products["columns"] = self._plain(self._reverse)
        sizes = {"rows": self.pattern.shape[1], "columns": self.pattern.shape[0]}
        refused: dict[str, Exception] = {}
        for lines in [*products] if self.what == "jacobian" else []:
            try:
                products[lines](x, np.zeros(sizes[lines]))
            except MISSING_RULE as error:
                refused[lines] = error
                del products[lines]
        if not products:
            raise next(iter(refused.values()))
        self._certify([x] * certificate.POINTS, products)

    def compile(self, x: Tree) -> None:
        """Trace and compile, so that later calls only run."""
        jax.block_until_ready(self._run(x))

    def certify(self, x: Tree, seed: int = 0) -> certificate.CertificateOutcome:
        """The certificate taken at preparation: this point and points around it, by the kinds of product in use."""
        recipe = self._plan.recipe
        products: dict[str, certificate.Products] = {}
        if recipe.forward or not recipe.reverse:
            products["rows"] = self._plain(self._forward)
        if recipe.reverse:
            products["columns"] = self._plain(self._reverse)
        return self._certify(
            certificate.points_around(x, self._entries, local=self.local, seed=seed), products, seed
        )

    def save(self, path: str | Path) -> None:
        """Keep pattern and colours in a file; `load(path, f)` makes the same derivative without searching again."""
        from chainrule.derive.sparse.storage import save

        save(self, Path(path))

    def _compiled(self, program: Callable[[Tree, Tables], Any]) -> Callable[[Tree], Any]:
        # The point is looked at while the program is traced, so that a call of the prepared kind costs nothing more.
        return self._plan.compiled(lambda x, tables: program(self._admit(x), tables))

    def _admit(self, x: Tree) -> Tree:
        leaves, structure = jax.tree.flatten(x)
        if structure != self._structure:  # type: ignore[operator]  # JAX leaves this type open
            raise ArgumentError(
                f"sparse {self.what}: x has structure {structure}, it was prepared for {self._structure}"
            )
        for number, (leaf, (shape, dtype)) in enumerate(zip(leaves, self._leaves, strict=True)):
            # Python's own numbers take the prepared type; anything else keeps its own and may be refused.
            array = leaf.astype(dtype) if leaf.weak_type else leaf
            if array.shape != shape or array.dtype != dtype:
                raise ArgumentError(
                    f"sparse {self.what}: x has a leaf of shape {array.shape} and type {array.dtype}, "
                    f"it was prepared for {shape} and {dtype}",
                    remedy="prepare another one for this kind of point",
                )
            leaves[number] = array
        return jax.tree.unflatten(structure, leaves)

    @functools.cached_property
    def _values(self) -> Callable[[Tree], Array]:
        return self._run if self.format != "dense" else self._compiled(self._plan.values)

    @functools.cached_property
    def _with_value(self) -> Callable[[Tree], tuple[Tree, Array]]:
        def both(x: Tree, tables: Tables) -> tuple[Tree, Array]:
            y, values = self._plan.value_and_values(x, tables)
            return y, self._maker.inside(values)

        return self._compiled(both)

    @functools.cached_property
    def _forward(self) -> Callable[[Tree, Any], Array]:
        return jax.jit(functools.partial(forward_product, self._plan.f, self._plan.outputs))

    @functools.cached_property
    def _reverse(self) -> Callable[[Tree, Any], Array]:
        return jax.jit(functools.partial(reverse_product, self._plan.f, self._plan.outputs))

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

    def _entries(self, x: Tree) -> np.ndarray:
        """The entries of the whole matrix, also where only a triangle is given out."""
        found = np.asarray(self._run(x))
        found = found[self.pattern.rows, self.pattern.cols] if self.format == "dense" else found
        return found if self.part == "full" else found[mirrored(self.coloring.pattern, self.pattern)]

    @staticmethod
    def _plain(product: Callable[[Tree, Any], Array]) -> certificate.Products:
        return lambda x, direction: np.asarray(product(x, jnp.asarray(direction)))

    def __repr__(self) -> str:
        return f"sparse {self.what}: {self.pattern!r}, {self.coloring!r}, as {self.format}"

    def _repr_html_(self) -> str:
        return notebook.drawing(self.coloring.to_svg(), repr(self))


__all__ = ["SparseDerivative"]
