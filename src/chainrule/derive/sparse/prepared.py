"""A sparse derivative that was detected, coloured and certified once, and is then called like a function."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Tree
from chainrule.derive.sparse import certificate
from chainrule.derive.sparse.choice import MISSING_RULE, Choice
from chainrule.derive.sparse.coloring.result import Coloring
from chainrule.derive.sparse.patterns import Pattern
from chainrule.derive.sparse.programs import Plan, Tables, forward_product, reverse_product
from chainrule.derive.sparse.report import SparseReport

FORMATS = ("bcoo", "csr", "dense", "values")


@final
class SparseDerivative:
    """A sparse Jacobian or Hessian of one function for one shape of input; call it with a point.

    `.pattern`, `.coloring` and `.report` tell what was found. It works under `jit`, `vmap` and further derivatives;
    "csr" matrices are SciPy's and live on the host, so inside a transformation use "bcoo", "dense" or "values" (under
    `vmap`: "dense" or "values").
    """

    report: SparseReport

    def __init__(
        self,
        what: str,
        f: Callable[[Any], Any],
        plan: Plan,
        choice: Choice,
        inputs: Tree,
        format: str,
        local: bool,
    ) -> None:
        self.what = what
        self.f = f
        self.format = format
        self.local = local
        self.inputs = inputs
        """Shapes and types of the leaves of a point."""
        self._plan = plan
        self._choice = choice
        leaves, self._structure = jax.tree.flatten(inputs)
        self._leaves = [(leaf.shape, leaf.dtype) for leaf in leaves]
        self._run = plan.compiled(plan.values)

    @property
    def pattern(self) -> Pattern:
        """The places of the entries, in the order of the values."""
        return self._choice.coloring.pattern

    @property
    def coloring(self) -> Coloring:
        """The colours in use."""
        return self._choice.coloring

    def __call__(self, x: Tree) -> Any:
        """The derivative at a point, in the format chosen at preparation."""
        x = self._admit(x)
        return self._guarded(x) if self.local else self._wrap(self._run(x))

    def value_and_jacobian(self, x: Tree) -> tuple[Tree, Any]:
        """The value and the derivative together: f and its Jacobian; for a Hessian, the gradient and the Hessian."""
        x = self._admit(x)
        y, values = self._with_value(x)
        return y, self._guarded(x) if self.local else self._wrap(values)

    def verify(self, x: Tree) -> None:
        """Compare with plain products at this point, in both directions; raise `PatternError` with rows that differ."""
        x = self._admit(x)
        products = {"rows": self._plain(self._forward), "columns": self._plain(self._reverse)}
        sizes = {"rows": self.pattern.shape[1], "columns": self.pattern.shape[0]}
        refused: dict[str, Exception] = {}
        for lines in [*products] if self.what == "jacobian" else ["columns"]:
            if self.what == "hessian":  # symmetric: the other direction says the same
                products.pop(lines)
                continue
            try:
                products[lines](x, np.zeros(sizes[lines]))
            except MISSING_RULE as error:
                refused[lines] = error
                del products[lines]
        if not products:
            raise next(iter(refused.values()))
        points = iter([x] * certificate.POINTS)
        where = f"sparse {self.what}"
        certificate.certify(where, self.pattern, self._entries, products, points, self._plan.dtype)

    def compile(self, x: Tree) -> None:
        """Trace and compile, so that later calls only run."""
        jax.block_until_ready(self._run(x))

    def certify(self, x: Tree, seed: int = 0) -> certificate.Outcome:
        """The certificate taken at preparation: this point and points around it, by the kinds of product in use."""
        recipe = self._plan.recipe
        products: dict[str, certificate.Products] = {}
        if recipe.forward or not recipe.reverse:
            products["rows"] = self._plain(self._forward)
        if recipe.reverse:
            products["columns"] = self._plain(self._reverse)
        points = certificate.points_around(x, self._entries, local=self.local, seed=seed)
        where = f"sparse {self.what}"
        return certificate.certify(
            where, self.pattern, self._entries, products, points, self._plan.dtype, seed
        )

    def save(self, path: str | Path) -> None:
        """Keep pattern and colours in a file; `load(path, f)` makes the same derivative without searching again."""
        from chainrule.derive.sparse.storage import save

        save(self, Path(path))

    def _admit(self, x: Tree) -> Tree:
        leaves, structure = jax.tree.flatten(x)
        if structure != self._structure:  # type: ignore[operator]  # JAX leaves this type open
            raise ArgumentError(
                f"sparse {self.what}: x has structure {structure}, it was prepared for {self._structure}"
            )
        for number, (leaf, (shape, dtype)) in enumerate(zip(leaves, self._leaves, strict=True)):
            array = leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf, dtype=_floating(leaf, dtype))
            if array.shape != shape or array.dtype != dtype:
                raise ArgumentError(
                    f"sparse {self.what}: x has a leaf of shape {array.shape} and type {array.dtype}, "
                    f"it was prepared for {shape} and {dtype}",
                    remedy="prepare another one for this kind of point",
                )
            leaves[number] = array
        return jax.tree.unflatten(structure, leaves)

    def _wrap(self, values: Array) -> Any:
        if self.format == "values":
            return values
        if self.format == "bcoo":
            return self._bcoo(values)
        if self.format == "dense":
            return (
                jnp.zeros(self.pattern.shape, dtype=values.dtype)
                .at[self.pattern.rows, self.pattern.cols]
                .set(values, unique_indices=True, indices_are_sorted=True, mode="promise_in_bounds")
            )
        if isinstance(values, jax.core.Tracer):
            raise CapabilityError(
                f'sparse {self.what}(format="csr"): SciPy matrices cannot be made inside jit, vmap or grad',
                remedy='prepare it with format="bcoo", "dense" or "values"',
            )
        places = (np.asarray(values), self.pattern.cols, self.pattern.indptr)
        return scipy.sparse.csr_array(places, shape=self.pattern.shape)

    @functools.cached_property
    def _bcoo(self) -> Callable[[Array], Any]:
        from jax.experimental import sparse

        places = jnp.asarray(np.stack([self.pattern.rows, self.pattern.cols], axis=1))
        like = sparse.BCOO(
            (jnp.zeros(self.pattern.nnz), places),
            shape=self.pattern.shape,
            indices_sorted=True,
            unique_indices=True,
        )
        (_, indices), structure = jax.tree.flatten(like)
        # Filling in the leaves is several times faster than the constructor, which looks at them again.
        return lambda values: jax.tree.unflatten(structure, [values, indices])

    @functools.cached_property
    def _with_value(self) -> Callable[[Tree], tuple[Tree, Array]]:
        return self._plan.compiled(self._plan.value_and_values)

    @functools.cached_property
    def _forward(self) -> Callable[[Tree, Any], Array]:
        return jax.jit(functools.partial(forward_product, self._plan.f, self._plan.outputs))

    @functools.cached_property
    def _reverse(self) -> Callable[[Tree, Any], Array]:
        return jax.jit(functools.partial(reverse_product, self._plan.f, self._plan.outputs))

    def _entries(self, x: Tree) -> np.ndarray:
        return np.asarray(self._run(x))

    @staticmethod
    def _plain(product: Callable[[Tree, Any], Array]) -> certificate.Products:
        return lambda x, direction: np.asarray(product(x, jnp.asarray(direction)))

    def _guarded(self, x: Tree) -> Any:
        """The derivative by a local pattern, if that still holds here; one more product tells."""
        values, wrong = self._with_guard(x)
        where = f"sparse {self.what}(local=True)"
        if isinstance(wrong, jax.core.Tracer):
            result = self._wrap(values)
            if not any(leaf.size for leaf in jax.tree.leaves(result)):
                # Nothing depends on an empty result, so the check needs an effect of its own.
                jax.debug.callback(functools.partial(_raise, where), wrong)
                return result
            return eqx.error_if(result, wrong.any(), f"{where}: the pattern does not hold at this point")
        _raise(where, wrong)
        return self._wrap(values)

    @functools.cached_property
    def _with_guard(self) -> Callable[[Tree], tuple[Array, Array]]:
        m, n = self.pattern.shape
        rows, cols = jnp.asarray(self.pattern.rows), jnp.asarray(self.pattern.cols)
        direction = jnp.asarray(np.random.default_rng(0).uniform(0.5, 1.5, n), dtype=self._plan.dtype)
        allowed = certificate.tolerance(self._plan.dtype)

        def run(x: Tree, tables: Tables) -> tuple[Array, Array]:
            values = self._plan.values(x, tables)
            true = forward_product(self._plan.f, self._plan.outputs, x, direction)
            terms = values * direction[cols]
            sums, sizes = (jax.ops.segment_sum(t, rows, num_segments=m) for t in (terms, jnp.abs(terms)))
            return values, jnp.abs(sums - true) > allowed * (sizes + jnp.abs(true))

        return self._plan.compiled(run)

    def __repr__(self) -> str:
        return f"sparse {self.what}: {self.pattern!r}, {self.coloring!r}, as {self.format}"


def _raise(where: str, wrong: Any) -> None:
    rows = np.flatnonzero(np.asarray(wrong))
    if len(rows):
        raise certificate.missing(where, "rows", rows)


def _floating(leaf: Any, dtype: Any) -> Any:
    """Python numbers and NumPy arrays of floats take the prepared type; anything else keeps its own and is refused."""
    given = np.asarray(leaf).dtype
    same = given == dtype or (isinstance(leaf, float | int) and not isinstance(leaf, bool))
    return dtype if same else None


__all__ = ["FORMATS", "SparseDerivative"]
