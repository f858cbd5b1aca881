"""Compressed evaluation: seeds, products and decompression as one compiled JAX program.

Seeds and positions to read are constants of the program while they are small: the compiler then works out beforehand
what does not depend on the point, which makes stencils two to four times as fast. Where there are many products, or
very large ones, they are arguments, because the compiler works slowly (a matrix product with 600 seeds takes it
seconds); seeds that would not fit in memory are made from the colours batch by batch.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.flatten_util import ravel_pytree

from chainrule.core.types import Array, Tree
from chainrule.derive import flattening
from chainrule.derive.flattening import pulled
from chainrule.derive.jaxprs import equations
from chainrule.derive.jaxprs.refusals import MISSING_RULE
from chainrule.derive.sparse.compression import CompressionRecipe
from chainrule.derive.sparse.signature import Held, Valued

_MOST_CONSTANT = {32: 2**22, 2**31: 2**18}
"""Numbers in seeds and positions that become constants, by the number of products up to which it holds."""
_MOST_AT_ONCE = 2**26
"""Numbers in the seeds of one batch of products."""


class Tables(NamedTuple):
    """What a program reads besides the point."""

    forward: Any
    """One seed per forward product; or colours and their number, to make them from."""
    reverse: Any
    index: Any
    spread: Any
    signs: Any
    rounds: Any


@final
@dataclass(frozen=True)
class CompressedProducts:
    """A function of a point and of what is held, the shapes it returns, and the recipe for its derivative."""

    f: Valued
    """What is compressed: the function itself, or its gradient."""
    outputs: Tree
    recipe: CompressionRecipe
    dtype: Any

    def tables(self) -> Tables:
        """Those of the recipe, on the host."""
        found = self.recipe.substitution
        return Tables(
            _seeds_of(self.recipe.column_colors, self.recipe.forward),
            _seeds_of(self.recipe.row_colors, self.recipe.reverse),
            self.recipe.index.astype(np.int32),
            None if self.recipe.spread is None else self.recipe.spread.astype(np.int32),
            None if found is None else found.signs.astype(np.int32),
            () if found is None else tuple((a.astype(np.int32), b.astype(np.int32)) for a, b in found.rounds),
        )

    @property
    def chunk(self) -> int:
        """Products that are computed at once."""
        sides = (
            (self.recipe.forward, self.recipe.column_colors),
            (self.recipe.reverse, self.recipe.row_colors),
        )
        return max((_at_once(len(colors), count) for count, colors in sides if count), default=0)

    def compiled(self, program: Callable[[tuple[Any, ...], Tables], Any]) -> tuple[Any, tuple[Any, ...]]:
        """A program of this plan, compiled, and what it is given before its own arguments."""
        tables = self.tables()
        most = next(size for products, size in _MOST_CONSTANT.items() if self.recipe.products <= products)
        if sum(np.size(leaf) for leaf in jax.tree.leaves(tables)) <= most:
            return jax.jit(lambda *given: program(given, tables)), ()
        return jax.jit(lambda tables, *given: program(given, tables)), (jax.tree.map(jnp.asarray, tables),)

    def values(self, x: Tree, held: Held, tables: Tables) -> tuple[Array, Tree]:
        """The entries, in the order of the pattern, and what the function returns beside its value."""
        _, aux, products = self._products(x, held, tables, with_value=False)
        return self._entries(products, tables), aux

    def value_and_values(self, x: Tree, held: Held, tables: Tables) -> tuple[Tree, Tree, Array]:
        """What `f` returns, what it returns beside it, and the entries."""
        y, aux, products = self._products(x, held, tables, with_value=True)
        return y, aux, self._entries(products, tables)

    def forward(self, x: Tree, held: Held, v: Array) -> Array:
        """One plain forward product of flattened vectors."""
        return self._push(x, held, with_value=False)(v)[0]

    def reverse(self, x: Tree, held: Held, u: Array) -> Array:
        """One plain reverse product of flattened vectors."""
        return reverse_product(self.f, x, held, u)

    def _products(self, x: Tree, held: Held, tables: Tables, *, with_value: bool) -> tuple[Tree, Tree, Array]:
        parts: list[Array] = []
        y: Any = None
        aux: Tree = None
        if self.recipe.reverse:
            point, vector = _flat(self.f, x, held)
            y, pull, aux = jax.vjp(vector, point, has_aux=True)
            parts.append(
                _batched(lambda u: pulled(point, pull, u), tables.reverse, self.recipe.reverse, y.dtype)
            )
        if self.recipe.forward:
            if not self.recipe.reverse:
                pushed, aux, y = self._pushed(x, held, tables.forward, with_value=with_value)
            else:
                push = self._push(x, held, with_value=False)
                pushed = _batched(lambda v: push(v)[0], tables.forward, self.recipe.forward, self.dtype)
            parts.insert(0, pushed)
        if not parts:
            point, vector = _flat(self.f, x, held)
            y, aux = vector(point)
            parts.append(jnp.zeros(0, dtype=y.dtype))
        products = parts[0].ravel() if len(parts) == 1 else jnp.concatenate([p.ravel() for p in parts])
        return _restore(y, self.outputs) if with_value else None, aux, products

    def _pushed(
        self, x: Tree, held: Held, seeds: Any, *, with_value: bool
    ) -> tuple[Array, Tree, Array | None]:
        """Forward products with all seeds, what is returned beside the value, and the value if it is wanted."""
        if seeds.ndim == 2:
            # All directions together: the values are computed once, and JAX traces this in a third of the time that
            # linearising takes.
            try:
                push = self._push(x, held, with_value=with_value)
                products, *others = jax.vmap(push)(jnp.asarray(seeds).astype(self.dtype))
                aux, y = jax.tree.map(lambda a: a[0], others)
                return products, aux, y
            except MISSING_RULE:
                pass  # linearised, what the result does not use needs no rule
        point, vector = _flat(self.f, x, held)
        y, linear, aux = jax.linearize(vector, point, has_aux=True)
        return _batched(linear, seeds, self.recipe.forward, point.dtype), aux, y

    def _push(
        self, x: Tree, held: Held, *, with_value: bool
    ) -> Callable[[Array], tuple[Array, Tree, Array | None]]:
        """A direction -> its product, what is returned beside the value, and the value if it is wanted.

        Traced once for arguments of the same kinds; what compresses and what certifies run the same program.
        """
        leaves, structure = jax.tree.flatten((x, held))
        kinds = (structure, with_value, *map(jax.typeof, leaves))
        if kinds not in self._traced:
            direction = jax.ShapeDtypeStruct((flattening.size(x),), self.dtype)

            def product(x: Tree, held: Held, v: Array) -> tuple[Array, Tree, Array | None]:
                point, vector = _flat(self.f, x, held)
                y, made, aux = jax.jvp(vector, (point,), (v.astype(point.dtype),), has_aux=True)
                return made, aux, y if with_value else None

            program, shapes = jax.make_jaxpr(product, return_shape=True)(x, held, direction)
            self._traced[kinds] = equations.without_dead_code(program), jax.tree.structure(shapes)
        program, returned = self._traced[kinds]
        run = jaxpr_as_fun(program)
        return lambda v: jax.tree.unflatten(returned, run(*leaves, v))

    @functools.cached_property
    def _traced(self) -> dict[Any, tuple[ClosedJaxpr, Any]]:
        return {}

    def _entries(self, products: Array, tables: Tables) -> Array:
        read = _take(products, tables.index)
        if self.recipe.substitution is None:
            return read
        edges = len(self.recipe.substitution.line)
        signs = jnp.asarray(tables.signs, dtype=read.dtype)
        direct, sums = read[: len(read) - edges], read[len(read) - edges :] * signs
        for sources, targets in tables.rounds:
            sums = sums.at[jnp.asarray(targets)].add(_take(sums, sources), mode="promise_in_bounds")
        return _take(jnp.concatenate([direct, sums * signs]), tables.spread)


def forward_product(f: Valued, x: Tree, held: Held, v: Array) -> Array:
    """One plain forward product of flattened vectors."""
    point, vector = _flat(f, x, held)
    return jax.jvp(vector, (point,), (v.astype(point.dtype),), has_aux=True)[1]


def reverse_product(f: Valued, x: Tree, held: Held, u: Array) -> Array:
    """One plain reverse product of flattened vectors."""
    point, vector = _flat(f, x, held)
    y, pull, _ = jax.vjp(vector, point, has_aux=True)
    return pulled(point, pull, u.astype(y.dtype))


def _flat(f: Valued, x: Tree, held: Held) -> tuple[Array, Callable[[Array], tuple[Array, Tree]]]:
    """The point as a vector, and the function of such vectors."""
    point, restore = ravel_pytree(x)

    def vector(z: Array) -> tuple[Array, Tree]:
        y, aux = f(restore(z), held)
        return ravel_pytree(y)[0], aux

    return point, vector


def _at_once(size: int, count: int) -> int:
    return min(count, max(1, _MOST_AT_ONCE // max(size, 1)))


def _seeds_of(colors: np.ndarray, count: int) -> np.ndarray | None:
    """Seeds, one row for each product; or only the colours where seeds would be too many at once."""
    if not count:
        return None
    if count * len(colors) > _MOST_AT_ONCE:
        return colors.astype(np.int32)
    return np.arange(count)[:, None] == colors[None, :]


def _batched(product: Callable[[Array], Array], seeds: Any, count: int, dtype: Any) -> Array:
    seeds = jnp.asarray(seeds)
    if seeds.ndim == 2:
        return jax.vmap(product)(seeds.astype(dtype))
    return jax.lax.map(
        lambda c: product((seeds == c).astype(dtype)),
        jnp.arange(count, dtype=seeds.dtype),
        batch_size=_at_once(len(seeds), count),
    )


_ELEMENTS = jax.lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))


def _take(vector: Array, index: Any) -> Array:
    # As `vector[index]`, which also provides for negative numbers and takes JAX longer to trace than all the rest here.
    positions = index.reshape(-1, 1)
    mode = jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return jax.lax.gather(vector, positions, _ELEMENTS, slice_sizes=(1,), mode=mode)


def _restore(vector: Array, shapes: Tree) -> Tree:
    """A flat result in the shapes and types of the function's own."""
    leaves, structure = jax.tree.flatten(shapes)
    ends = np.cumsum([int(np.prod(leaf.shape)) for leaf in leaves])
    parts = jnp.split(vector, ends[:-1]) if len(leaves) > 1 else [vector] * len(leaves)
    shaped = [p.reshape(s.shape).astype(s.dtype) for p, s in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)


__all__ = ["CompressedProducts", "Tables", "forward_product", "reverse_product"]
