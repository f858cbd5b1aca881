"""Functions between PyTrees as functions between vectors, and their derivatives back as PyTrees."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from chainrule.core.types import Array, Tree


@final
@dataclass(frozen=True)
class Flat:
    """`f` from n numbers to m numbers at a point, with what is needed to give results their shapes back."""

    vector: Callable[[Array], Array]
    """R^n to R^m."""
    x: Array
    inputs: Tree
    """Shapes and types of the input leaves."""
    outputs: Tree
    """Shapes and types of the output leaves."""
    traceable: bool = True
    """Whether the function may be traced; not if it branches on values in Python."""

    @property
    def n(self) -> int:
        """Number of inputs."""
        return size(self.inputs)

    @property
    def m(self) -> int:
        """Number of outputs."""
        return size(self.outputs)

    @property
    def itemsize(self) -> int:
        """Bytes of one entry of a derivative."""
        dtypes = [leaf.dtype for leaf in jax.tree.leaves((self.inputs, self.outputs))]
        return jnp.result_type(*dtypes).itemsize if dtypes else 0

    def jacobian_tree(self, matrix: Array) -> Tree:
        """An m x n matrix as a tree of blocks: outputs outside, inputs inside, each block of shape out + in."""
        return self._blocks(matrix, (self.outputs, self.inputs))

    def hessian_tree(self, tensor: Array) -> Tree:
        """An m x n x n tensor likewise: outputs, inputs, inputs."""
        return self._blocks(tensor, (self.outputs, self.inputs, self.inputs))

    def _blocks(self, tensor: Array, levels: tuple[Tree, ...]) -> Tree:
        def descend(part: Array, axis: int, shape: tuple[int, ...], dtypes: tuple[Any, ...]) -> Tree:
            if axis == len(levels):
                dtype = jnp.result_type(*dtypes)
                # Real leaves beside complex ones: their parts of the common vector have no imaginary part.
                real = jnp.iscomplexobj(part) and not jnp.issubdtype(dtype, jnp.complexfloating)
                return (part.real if real else part).reshape(shape).astype(dtype)
            leaves, structure = jax.tree.flatten(levels[axis])
            blocks, start = [], 0
            for leaf in leaves:
                stop = start + math.prod(leaf.shape)
                block = part if len(leaves) == 1 else jax.lax.slice_in_dim(part, start, stop, axis=axis)
                blocks.append(descend(block, axis + 1, shape + leaf.shape, (*dtypes, leaf.dtype)))
                start = stop
            return jax.tree.unflatten(structure, blocks)

        return descend(tensor, 0, (), ())


def flatten(f: Callable[[Any], Any], x: Tree, outputs: Tree | None = None, *, traceable: bool = True) -> Flat:
    """The flat view of `f` at `x`; `outputs` saves an abstract evaluation when the output shapes are known."""
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(jnp.shape(a), jnp.result_type(a)), x)
    flat, restore = ravel_pytree(x)
    if outputs is None:
        outputs = jax.eval_shape(f, shapes)

    def vector(z: Array) -> Array:
        return ravel_pytree(f(restore(z)))[0]

    return Flat(vector, flat, shapes, outputs, traceable)


def pulled(x: Array, pull: Callable[[Array], tuple[Array]], u: Array) -> Array:
    """The whole of `uᵀ J`, also for complex outputs of real inputs."""
    if jnp.iscomplexobj(u) and not jnp.iscomplexobj(x):
        # A pullback to real inputs keeps the real part of uᵀ J: one for the real part of J, one for the imaginary.
        return pull(u)[0] + 1j * pull(-1j * u)[0]
    return pull(u)[0]


def size(shapes: Tree) -> int:
    """Number of entries of all leaves."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))


__all__ = ["Flat", "flatten", "pulled", "size"]
