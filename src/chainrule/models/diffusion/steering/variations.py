"""Variations of examples: noised part of the way and denoised again (Meng et al., 2022)."""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.data.example_files import arrays_of
from chainrule.models.diffusion.steering.draw import Draw, Steering


@final
class Variations(Steering):
    """Examples noised part of the way, and denoised again."""

    name: ClassVar[str] = "variations"
    summary: ClassVar[str] = "Variations of given examples."
    order: ClassVar[int] = 2

    start: Any = Field(
        None,
        description="examples to vary: a file with an array samples, in the units of the data, or an array",
    )
    strength: float = Field(
        0.5, gt=0, le=1, description="share of the way to noise from which they are denoised"
    )

    @property
    def shows_what(self) -> bool:
        """Whether there are examples to vary."""
        return self.start is not None

    def steer(self, draw: Draw) -> Draw:
        """The draw down the last levels alone, from the examples."""
        if self.start is None:
            return draw
        schema, start = draw.model.schema, self.start
        if isinstance(start, str | Path):
            start = arrays_of(Path(start), ("samples",), schema)["samples"]
        given = np.asarray(start, np.float32)
        given = given[None] if given.shape == schema.shape else given
        if (
            given.ndim != len(schema.shape) + 1
            or given.shape[1:] != schema.shape
            or not 0 < len(given) <= draw.n
        ):
            raise ArgumentError(
                f"start: shape {given.shape}; the data have shape {schema.shape}",
                remedy=f"give up to n={draw.n} examples",
            )
        steps = len(np.asarray(draw.levels.a)) - 1
        first = min(round((1 - self.strength) * steps), steps - 1)
        seen = draw.model.to_network_units(jnp.asarray(given))
        return replace(draw, levels=draw.levels.at(slice(first, None)), examples=seen)


def similarity(one: Float[Array, "batch ..."], other: Float[Array, "batch ..."]) -> Float[Array, " batch"]:
    """Correlation of the entries of two examples: 1 for a copy, 0 where nothing was kept or one is a single shade.

    >>> x = jnp.array([[0.0, 1.0, 2.0]])
    >>> float(similarity(x, 2 * x + 1)[0].round(4))
    1.0
    """
    a, b = (x.reshape(len(x), -1) for x in (one, other))
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (a, b))
    sizes = jnp.sqrt(jnp.square(a).sum(axis=1) * jnp.square(b).sum(axis=1))
    return (a * b).sum(axis=1) / jnp.where(sizes > 0, sizes, 1)


__all__ = ["Variations", "similarity"]
