"""Several controls of one diffusion model: which they are, and what each is given."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from chainrule.core.errors import ArgumentError

if TYPE_CHECKING:
    from chainrule.models.diffusion.control.model import Control


def branches_of(beside: Any) -> Sequence[Any]:
    """The further controls that are asked for, one or several."""
    if beside is None:
        return ()
    return list(beside) if isinstance(beside, Sequence) and not isinstance(beside, str) else [beside]


def together(model: "Control", beside: Any) -> "Sequence[Control]":
    """A control and those beside it; refused unless all stand beside the very same diffusion model."""
    found = [model, *branches_of(beside)]
    own = jax.tree.leaves(eqx.filter(model.body, eqx.is_array))
    for number, other in enumerate(found[1:], start=1):
        if not isinstance(other, type(model)):
            raise ArgumentError(
                f"beside: number {number} is a {type(other).__name__}, not a run of control",
                remedy="give runs of control: beside=RUN",
            )
        theirs = jax.tree.leaves(eqx.filter(other.body, eqx.is_array))
        same = len(own) == len(theirs) and all(map(np.array_equal, own, theirs))
        if not same or other.config.body != model.config.body:
            raise ArgumentError(
                f"beside: number {number} stands beside another diffusion model than this control",
                remedy="train both beside the same run: chainrule train control from=RUN",
            )
    return found


def each_of(count: int, **given: Any) -> list[dict[str, Any]]:
    """What each of several controls is given: one value for all, or one for each in a list or with commas between."""
    return [
        dict(zip(given, values, strict=True))
        for values in zip(*(_split(count, *one) for one in given.items()), strict=True)
    ]


def _split(count: int, name: str, value: Any) -> Sequence[Any]:
    if count > 1 and isinstance(value, str) and "," in value:
        value = [part.strip() for part in value.split(",")]
    if isinstance(value, list | tuple) and (count > 1 or name == "strength"):
        if len(value) != count:
            raise ArgumentError(
                f"{name}: {len(value)} for {count} control{'s' if count > 1 else ''}",
                remedy="give one for all, or one for each with commas between them",
            )
        return list(value)
    return [value] * count


__all__ = ["branches_of", "each_of", "together"]
