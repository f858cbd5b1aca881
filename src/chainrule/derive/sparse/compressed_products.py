"""Compressed evaluation: seeds, products and decompression as one compiled JAX program.

Seeds and positions to read are constants of the program while they are small: the compiler then works out beforehand
what does not depend on the point, which makes stencils two to four times as fast. Where there are many products, or
very large ones, they are arguments, because the compiler works slowly (a matrix product with 600 seeds takes it
seconds); seeds that would not fit in memory are made from the colours batch by batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Tree
from chainrule.derive.flattening import flatten, pulled
from chainrule.derive.sparse.compression import CompressionRecipe

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
    """A function of one PyTree, the shapes it returns, and the recipe for its derivative."""

    f: Callable[[Any], Any]
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

    def compiled(self, program: Callable[[Tree, Tables], Any]) -> Callable[[Tree], Any]:
        """A program of this plan as a function of the point alone."""
        tables = self.tables()
        most = next(size for products, size in _MOST_CONSTANT.items() if self.recipe.products <= products)
        if sum(np.size(leaf) for leaf in jax.tree.leaves(tables)) <= most:
            return jax.jit(lambda x: program(x, tables))
        run, converted = jax.jit(program), jax.tree.map(jnp.asarray, tables)
        return lambda x: run(x, converted)

    def values(self, x: Tree, tables: Tables) -> Array:
        """The entries, in the order of the pattern."""
        return self._entries(self._products(x, tables)[1], tables)

    def value_and_values(self, x: Tree, tables: Tables) -> tuple[Tree, Array]:
        """What `f` returns, and the entries."""
        y, products = self._products(x, tables)
        return y, self._entries(products, tables)

    def _products(self, x: Tree, tables: Tables) -> tuple[Tree, Array]:
        flat = flatten(self.f, x, self.outputs)
        parts: list[Array] = []
        vector: Any = None
        if self.recipe.reverse:
            vector, pull = jax.vjp(flat.vector, flat.x)
            row = lambda u: pulled(flat.x, pull, u)  # noqa: E731
            parts.append(_batched(row, tables.reverse, self.recipe.reverse, vector.dtype))
        if self.recipe.forward:
            if vector is None:
                vector, push = jax.linearize(flat.vector, flat.x)
            else:
                push = lambda v: jax.jvp(flat.vector, (flat.x,), (v,))[1]  # noqa: E731
            parts.insert(0, _batched(push, tables.forward, self.recipe.forward, flat.x.dtype))
        if not parts:
            vector = flat.vector(flat.x)
            parts.append(jnp.zeros(0, dtype=vector.dtype))
        y = _restore(vector, self.outputs)
        return y, parts[0].ravel() if len(parts) == 1 else jnp.concatenate([p.ravel() for p in parts])

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


def forward_product(f: Callable[[Any], Any], outputs: Tree, x: Tree, v: Array) -> Array:
    """One plain forward product of flattened vectors."""
    flat = flatten(f, x, outputs)
    return jax.jvp(flat.vector, (flat.x,), (v.astype(flat.x.dtype),))[1]


def reverse_product(f: Callable[[Any], Any], outputs: Tree, x: Tree, u: Array) -> Array:
    """One plain reverse product of flattened vectors."""
    flat = flatten(f, x, outputs)
    y, pull = jax.vjp(flat.vector, flat.x)
    return pulled(flat.x, pull, u.astype(y.dtype))


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
    size = max(1, _MOST_AT_ONCE // len(seeds))
    return jax.lax.map(
        lambda c: product((seeds == c).astype(dtype)), jnp.arange(count, dtype=seeds.dtype), batch_size=size
    )


def _take(vector: Array, index: Any) -> Array:
    return vector.at[jnp.asarray(index)].get(mode="promise_in_bounds")


def _restore(vector: Array, shapes: Tree) -> Tree:
    """A flat result in the shapes and types of the function's own."""
    leaves, structure = jax.tree.flatten(shapes)
    ends = np.cumsum([int(np.prod(leaf.shape)) for leaf in leaves])
    parts = jnp.split(vector, ends[:-1]) if len(leaves) > 1 else [vector] * len(leaves)
    shaped = [p.reshape(s.shape).astype(s.dtype) for p, s in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)


__all__ = ["CompressedProducts", "Tables", "forward_product", "reverse_product"]
