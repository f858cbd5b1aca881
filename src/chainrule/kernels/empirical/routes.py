"""Three ways to a tangent kernel, all of which give the same numbers.

For N and M examples, O outputs and P parameters:

| route | what it does | memory beside the result |
|---|---|---|
| jacobian | gradients of every example and output, and their inner products | (N + M) O P |
| products | one gradient at a time, pushed forward through all rows: `J (J' e)` | P, and N activations |
| structured | products of two small Gram matrices for each layer | (N + M) O width, and N M positions^2 |

Which is cheapest depends on all of these, so `planning` asks the compiler.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Tree
from chainrule.kernels.empirical.structure import LayerFactors, factors, structure_of
from chainrule.kernels.empirical.subjects import Arrays, Subject, count

Block = Float[Array, "rows columns *outputs"]
"""`(rows, columns)` where outputs are summed over, `(rows, columns, outputs, outputs)` where they are kept."""


class Route(abc.ABC):
    """A way of computing one block of a kernel, in traced code."""

    name: str
    goes_forward: bool = False
    """Whether it needs derivatives in forward mode."""

    @abc.abstractmethod
    def tile(self, subject: Subject, arrays: Arrays, x: Tree, y: Tree | None, *, full: bool) -> Block:
        """The kernel of some rows and columns; of rows with themselves without y."""


class RouteByLayer(Route):
    """A way that gives the share of every parameter by itself."""

    @abc.abstractmethod
    def terms(self, subject: Subject, arrays: Arrays, x: Tree, y: Tree | None, *, full: bool) -> list[Block]:
        """What each of the chosen parameters adds to the kernel."""

    def tile(self, subject: Subject, arrays: Arrays, x: Tree, y: Tree | None, *, full: bool) -> Block:
        """The sum of all parameters' shares."""
        first, *rest = self.terms(subject, arrays, x, y, full=full)
        for term in rest:
            first = first + term
        return first


@final
class ByJacobian(RouteByLayer):
    """Gradients of every example and output, and their inner products."""

    name = "jacobian"

    def terms(self, subject: Subject, arrays: Arrays, x: Tree, y: Tree | None, *, full: bool) -> list[Block]:
        """Inner products of gradients, parameter by parameter."""

        def gradients(batch: Tree) -> list[Array]:
            def one(example: Tree) -> list[Array]:
                out, pull = jax.vjp(
                    lambda chosen: subject.single(chosen, arrays.others, example), arrays.chosen
                )
                found: list[Array] = jax.vmap(pull)(jnp.eye(len(out), dtype=out.dtype))[0]
                return found

            return jax.vmap(one)(batch)

        left = gradients(x)
        right = left if y is None else gradients(y)
        return [inner(a, b, full) for a, b in zip(left, right, strict=True)]


@final
class ByProducts(Route):
    """One gradient at a time, pushed forward through all rows: forward over reverse mode."""

    name = "products"
    goes_forward = True

    def tile(self, subject: Subject, arrays: Arrays, x: Tree, y: Tree | None, *, full: bool) -> Block:
        """The kernel column by column and output by output."""
        columns = x if y is None else y
        push = self.pushed(subject, arrays, x)
        outputs = jax.eval_shape(lambda: subject.outputs(arrays.chosen, arrays.others, x)).shape[1]

        def pair(number: Array) -> Array:
            column, output = number // outputs, number % outputs
            example = jax.tree.map(lambda a: a[column], columns)
            out, pull = jax.vjp(lambda chosen: subject.single(chosen, arrays.others, example), arrays.chosen)
            moved = push(pull((jnp.arange(outputs) == output).astype(out.dtype))[0])
            return moved if full else moved[:, output]

        found = jax.lax.map(pair, jnp.arange(count(columns) * outputs))
        if full:  # (columns, output of the column, rows, output of the row)
            return found.reshape(count(columns), outputs, count(x), outputs).transpose(2, 0, 3, 1)
        return found.reshape(count(columns), outputs, count(x)).sum(axis=1).T

    @staticmethod
    def pushed(subject: Subject, arrays: Arrays, x: Tree) -> Any:
        """`v -> J v` for the outputs of a batch, with what it needs of the batch computed once."""
        return jax.linearize(lambda chosen: subject.each(chosen, arrays.others, x), arrays.chosen)[1]


@final
class ByStructure(RouteByLayer):
    """Products of two Gram matrices for each layer, general gradients for whatever is in none."""

    name = "structured"

    def terms(self, subject: Subject, arrays: Arrays, x: Tree, y: Tree | None, *, full: bool) -> list[Block]:
        """`<g, g'> <b, b'>` of every layer, and inner products of all other gradients."""

        def single(chosen: Sequence[Array], one: Tree) -> Array:
            return subject.single(chosen, arrays.others, one)

        example = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x)
        found = structure_of(single, arrays.chosen, example)

        def examine(batch: Tree) -> tuple[list[LayerFactors], list[Array]]:
            return jax.vmap(lambda one: factors(found, arrays.chosen, one))(batch)

        left = examine(x)
        right = left if y is None else examine(y)
        terms: dict[int, Block] = {}
        for meeting, a, b in zip(found.meetings, left[0], right[0], strict=True):
            terms[meeting.parameter] = layer_term(a, b, full)
        for number, c, d in zip(found.general, left[1], right[1], strict=True):
            terms[number] = inner(c, d, full)
        return [terms[number] for number in range(len(arrays.chosen))]


def inner(
    a: Float[Array, "rows outputs *parameter"], b: Float[Array, "columns outputs *parameter"], full: bool
) -> Block:
    """Inner products of gradients over one parameter."""
    if full:
        left, right = (g.reshape(g.shape[0] * g.shape[1], -1) for g in (a, b))
        product = left @ right.T
        return product.reshape(a.shape[0], a.shape[1], b.shape[0], b.shape[1]).transpose(0, 2, 1, 3)
    return a.reshape(len(a), -1) @ b.reshape(len(b), -1).T


def layer_term(a: LayerFactors, b: LayerFactors, full: bool) -> Block:
    """A layer's share: products of Gram matrices, or inner products of its gradients, whichever is less work.

    With one position a gradient is one outer product and never worth writing down. With many, as in a convolution,
    every position of one example meets every position of the other, and the gradient may be the smaller of the two.
    """
    rows, positions, inputs = a.inputs.shape
    outputs, units = a.returns.shape[1], a.returns.shape[3]
    columns, pairs = len(b.inputs), outputs**2 if full else outputs
    by_grams = rows * columns * positions**2 * (inputs + pairs * (units + 1))
    by_gradients = (
        rows + columns
    ) * outputs * positions * inputs * units + rows * columns * pairs * inputs * units
    if by_grams > by_gradients:
        left, right = (jnp.einsum("npi,nopj->noij", f.inputs, f.returns) for f in (a, b))
        return inner(left, right, full)
    if positions == 1:
        similar = a.inputs[:, 0] @ b.inputs[:, 0].T
        kept = inner(a.returns, b.returns, full)
        return similar[:, :, None, None] * kept if full else similar * kept
    similar = jnp.einsum("npi,mqi->nmpq", a.inputs, b.inputs)
    if full:
        returned = jnp.einsum("nopj,mrqj->nmpqor", a.returns, b.returns)
        return jnp.einsum("nmpq,nmpqor->nmor", similar, returned)
    return (similar * jnp.einsum("nopj,moqj->nmpq", a.returns, b.returns)).sum(axis=(2, 3))


@final
class LayerByLayer(Route):
    """The shares of all parameters side by side, along a last axis."""

    name = "layer by layer"

    def tile(self, subject: Subject, arrays: Arrays, x: Tree, y: Tree | None, *, full: bool) -> Block:
        """The shares of a block."""
        return jnp.stack(ByStructure().terms(subject, arrays, x, y, full=full), axis=-1)


ROUTES: Mapping[str, Route] = {route.name: route for route in (ByJacobian(), ByProducts(), ByStructure())}
"""Every route by name."""

__all__ = [
    "ROUTES",
    "Block",
    "ByJacobian",
    "ByProducts",
    "ByStructure",
    "LayerByLayer",
    "Route",
    "RouteByLayer",
    "inner",
    "layer_term",
]
