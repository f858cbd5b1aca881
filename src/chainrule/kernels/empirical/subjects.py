"""What a tangent kernel is of: outputs of a network, one example at a time, as a function of the parameters chosen.

Any function `f(params, x)` of a PyTree and a batch serves, and any model that gives logits or distributions of values.
The rest of this package sees lists of arrays: the parameters that count, and everything else that the function needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CapabilityError, spell, suggest
from chainrule.core.types import Array, Float, Tree
from chainrule.derive.jaxprs.equations import inner_programs
from chainrule.kernels.wide import counted_once
from chainrule.nn.matrices import GivesLogits, GivesMeans, GivesPredictions
from chainrule.nn.native.availability import without_native
from chainrule.nn.sequential import StatefulNetwork, running_statistics

Where: TypeAlias = str | Sequence[str] | Callable[[str], bool] | None
"""Parameters by their dotted names: patterns such as "blocks.0" or "*.bias", or a test of a name; none: all."""


@final
@dataclass(frozen=True)
class Subject:
    """A function of the chosen parameters, of other arrays, and of a batch."""

    f: Callable[[Any, Any], Any]
    structure: Any
    """How the leaves make up the parameters."""
    fixed: tuple[Any, ...]
    """Leaves that are no arrays, by position; none where an array stands."""
    chosen: tuple[int, ...]
    """Positions of the parameters that count."""
    others: tuple[int, ...]
    """Positions of all other arrays."""
    names: tuple[str, ...]
    """Of the chosen parameters."""
    output: int | None
    """The only output that counts; none: all."""

    def assembled(self, chosen: Sequence[Array], others: Sequence[Array]) -> Tree:
        """The parameters as the function wants them."""
        leaves = list(self.fixed)
        for positions, arrays in ((self.chosen, chosen), (self.others, others)):
            for position, array in zip(positions, arrays, strict=True):
                leaves[position] = array
        return jax.tree.unflatten(self.structure, leaves)

    def called(self, chosen: Sequence[Array], others: Sequence[Array], x: Tree) -> Any:
        """What the function gives for a batch."""
        return self.f(self.assembled(chosen, others), x)

    def outputs(
        self, chosen: Sequence[Array], others: Sequence[Array], x: Tree
    ) -> Float[Array, "batch outputs"]:
        """The outputs of a batch, one row for each example."""
        # The cost of native programs is not counted by the compiler, and their structure cannot be seen.
        with without_native():
            out = jnp.asarray(self.called(chosen, others, x))
        count = len(jax.tree.leaves(x)[0])
        if out.ndim == 0 or out.shape[0] != count:
            raise ArgumentError(
                f"empirical_ntk(f): the outputs of {count} examples have shape {out.shape}",
                remedy="f(params, x) gives one row for each example; for a function of one: "
                "lambda params, x: jax.vmap(lambda one: f(params, one))(x)",
            )
        flat = out.reshape(count, -1)
        if self.output is None:
            return flat
        if not -flat.shape[1] <= self.output < flat.shape[1]:
            raise ArgumentError(
                f"empirical_ntk(output={self.output}): f has {flat.shape[1]} outputs",
                remedy=f'take one from 0 to {flat.shape[1] - 1}, or "trace" or "full"',
            )
        return flat[:, [self.output]]

    def has_forward_mode(self, arrays: "Arrays", x: Tree) -> bool:
        """Whether no part of the function has a rule for reverse mode alone."""
        return not _has_reverse_rule(jax.make_jaxpr(self.outputs)(arrays.chosen, arrays.others, x))

    def single(self, chosen: Sequence[Array], others: Sequence[Array], one: Tree) -> Float[Array, " outputs"]:
        """The outputs of one example."""
        return self.outputs(chosen, others, jax.tree.map(lambda a: a[None], one))[0]

    def each(
        self, chosen: Sequence[Array], others: Sequence[Array], x: Tree
    ) -> Float[Array, "batch outputs"]:
        """The outputs of every example of a batch by itself, whatever layers make of a batch."""
        return jax.vmap(lambda one: self.single(chosen, others, one))(x)


@final
@dataclass(frozen=True)
class Arrays:
    """The numbers that go with a subject."""

    chosen: list[Any]
    others: list[Any]


jax.tree_util.register_dataclass(Arrays, ["chosen", "others"], [])


def no_forward_mode(where: str, remedy: str) -> CapabilityError:
    """The error for what goes forward through a function that cannot."""
    return CapabilityError(
        f"{where} needs forward mode, and the function has a rule for reverse mode alone (jax.custom_vjp)",
        remedy=remedy,
    )


def _has_reverse_rule(program: Any) -> bool:
    return any(
        equation.primitive.name.startswith("custom_vjp")
        or any(map(_has_reverse_rule, inner_programs(equation)))
        for equation in program.jaxpr.eqns
    )


def prepared(
    where: str, f: Any, params: Any, select: Where, output: int | None = None
) -> tuple[Subject, Arrays]:
    """A function and its parameters, or a model with its own, taken apart."""
    if params is None:
        f, params, numbers = _network(where, f)
    elif not callable(f):
        raise ArgumentError(f"{where}(f={f!r}): f must be a function of parameters and a batch")
    else:
        numbers = frozenset()
    leaves, structure = jax.tree.flatten(params)
    arrays = [isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves]
    paths = [tree.path_name(path) or "value" for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    candidates = [
        i
        for i, leaf in enumerate(leaves)
        if arrays[i] and i not in numbers and jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    chosen = tuple(_selected(where, candidates, paths, select))
    others = tuple(i for i, one in enumerate(arrays) if one and i not in chosen)
    subject = Subject(
        f,
        structure,
        tuple(None if array else leaf for leaf, array in zip(leaves, arrays, strict=True)),
        chosen,
        others,
        tuple(paths[i] for i in chosen),
        output,
    )
    return subject, Arrays([leaves[i] for i in chosen], [leaves[i] for i in others])


def _network(where: str, model: Any) -> tuple[Callable[[Any, Any], Any], Any, frozenset[int]]:
    """A model as a function of itself, and which of its leaves are moved by rule instead of learnt."""
    if isinstance(model, GivesLogits):
        call: Callable[[Any, Any], Any] = _logits
    elif isinstance(model, GivesMeans):
        call = _means
    elif isinstance(model, StatefulNetwork):
        call = _called
    else:
        raise ArgumentError(
            f"{where}(f of type {type(model).__name__}, params=None): only models that give logits or distributions of "
            "values know their outputs",
            remedy=_said_how(where, model),
        )
    still = eqx.nn.inference_mode(model)
    leaves, structure = jax.tree.flatten(still)
    numbered = jax.tree.unflatten(structure, range(len(leaves)))
    return call, still, frozenset(jax.tree.leaves(running_statistics(numbered)))


def _said_how(where: str, model: Any) -> str:
    """How to name the outputs of what has none by itself."""
    if isinstance(model, GivesPredictions):
        return f"take what it predicts: {where}(lambda model, x: model.predict(x), model, x)"
    if callable(model):
        return f"say how it is called: {where}(lambda model, x: jax.vmap(model)(x), model, x)"
    return f"give a function f(model, x) that has a row of numbers for each example of a batch: {where}(f, model, x)"


def _logits(model: Any, x: Any) -> Array:
    found: Array = counted_once(model).logits(jnp.asarray(x))
    return found


def _means(model: Any, x: Any) -> Array:
    """Of values, by a model that knows how far each may be off: a Gaussian process has no logits."""
    found: Array = counted_once(model).predict(jnp.asarray(x))
    return found


def _called(model: Any, x: Any) -> Array:
    found: Array = model(jnp.asarray(x))
    return found


def _selected(where: str, candidates: Sequence[int], paths: Sequence[str], select: Where) -> list[int]:
    names = [paths[i] for i in candidates]
    if not names:
        raise ArgumentError(f"{where}(params): it holds no array of real numbers to differentiate by")
    if select is None:
        return list(candidates)
    if callable(select):
        found = [i for i in candidates if select(paths[i])]
        if not found:
            raise ArgumentError(f"{where}(where): no parameter passes the test; they are {spell(names[:8])}")
        return found
    patterns = [select] if isinstance(select, str) else list(select)
    for pattern in patterns:
        if not any(tree.matches(name, pattern) for name in names):
            raise ArgumentError(
                f'{where}(where="{pattern}"): no parameter has that name{suggest(pattern, names)}',
                remedy=f"they are {spell(names[:8])}{' ...' if len(names) > 8 else ''}",
            )
    return [i for i in candidates if any(tree.matches(paths[i], pattern) for pattern in patterns)]


def rows(where: str, name: str, x: Any) -> Tree:
    """A batch: arrays with a leading axis of examples, all of one length."""
    batch = jax.tree.map(jnp.asarray, x)
    lengths = {a.shape[0] if a.ndim else -1 for a in jax.tree.leaves(batch)}
    if len(lengths) != 1 or min(lengths) < 1:
        raise ArgumentError(f"{where}({name}): needs examples along a leading axis, at least one")
    for leaf in jax.tree.leaves(batch):
        known = not isinstance(leaf, jax.core.Tracer)
        if known and jnp.issubdtype(leaf.dtype, jnp.floating) and not bool(jnp.isfinite(leaf).all()):
            bad = np.argwhere(~np.isfinite(np.asarray(leaf, np.float64)))[0]
            raise ArgumentError(f"{where}({name}): the entry at {tuple(int(i) for i in bad)} is not finite")
    return batch


def count(batch: Tree) -> int:
    """How many examples a batch holds."""
    return int(jax.tree.leaves(batch)[0].shape[0])


__all__ = ["Arrays", "Subject", "Where", "count", "no_forward_mode", "prepared", "rows"]
