"""Modules that leave a mark: callable modules of a model wrapped so that a traced program tells their results by name.

A mark is a call that does nothing, named after the path of the module; whoever walks through the program of the call
(`taps`) finds the values there. Wrapped modules pass for their originals, and tangents pass through marks.
"""

from typing import Any, final

import equinox as eqx
import jax

from chainrule.core.types import Array

MARK = "chainrule_tap "
"""What the name of a marked value begins with in a program."""
_CHANNELS_FIRST = (eqx.nn.Conv, eqx.nn.ConvTranspose, eqx.nn.BatchNorm, eqx.nn.GroupNorm)


@final
class _Marked(eqx.Module):
    """A module whose results leave a mark in the program under its name."""

    module: Any
    name: str = eqx.field(static=True)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _mark(self.module(*args, **options), self.name)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        if name == "advance":  # what training calls instead: the results, and the module moved on
            return lambda *args, **options: _mark(found(*args, **options), self.name)
        return found

    @property  # type: ignore[misc]  # nobody writes it
    def __class__(self) -> Any:
        """That of the module: a function that asks for one takes what stands for it."""
        return type(self.module)


def _mark(result: Any, name: str) -> Any:
    """The result with its first array marked."""

    def identity(value: Array) -> Array:
        return value

    identity.__name__ = MARK + name
    mark = jax.custom_jvp(jax.jit(identity))
    # Where a model differentiates its own modules, values are marked and tangents pass.
    mark.defjvp(lambda values, tangents: (mark(*values), tangents[0]))
    leaves, structure = jax.tree.flatten(result)
    for number, leaf in enumerate(leaves):
        if eqx.is_inexact_array(leaf):
            leaves[number] = mark(leaf)
            break
    return jax.tree.unflatten(structure, leaves)


def marked(model: Any, before: str = "") -> Any:
    """A model whose modules are marked, those inside of others too."""

    def wrap(path: Any, node: Any) -> Any:
        if not _is_module(node):
            return node
        name = before + _name(path)
        return _Marked(marked(node, f"{name}."), name)

    return jax.tree_util.tree_map_with_path(
        wrap, model, is_leaf=lambda node: node is not model and _is_module(node)
    )


def _is_module(node: Any) -> bool:
    return isinstance(node, eqx.Module) and callable(node) and any(map(eqx.is_array, jax.tree.leaves(node)))


def _name(path: Any) -> str:
    parts = [str(getattr(part, "name", getattr(part, "idx", getattr(part, "key", part)))) for part in path]
    return ".".join(parts)


def unit_axes(model: Any, before: str = "") -> dict[str, int]:
    """For every module by name, the axis of its units: the last, or the first of an example for those of Equinox."""
    found: dict[str, int] = {}
    pairs = jax.tree_util.tree_leaves_with_path(
        model, is_leaf=lambda node: node is not model and _is_module(node)
    )
    for path, node in pairs:
        if _is_module(node):
            name = before + _name(path)
            found[name] = 1 if isinstance(node, _CHANNELS_FIRST) else -1
            found |= unit_axes(node, f"{name}.")
    return found


__all__ = ["MARK", "marked", "unit_axes"]
