"""Options of the walk from noise to data that all samplers share."""

import abc
import functools
from typing import Any, Literal

import pydantic
from pydantic import Field

from chainrule.models.protocol import SampleOptions


class WalkOptions(SampleOptions, abc.ABC):
    """What is drawn, by which sampler, along which noise levels; `walk_options` adds the defaults of a model."""

    condition: Any = Field(
        None,
        description="a class by name or number, a caption, or numbers in the units of the model; one for all or each",
    )
    sampler: str
    steps: int
    spacing: Literal["uniform-t", "uniform-lam", "karras"] | None = Field(
        None, description="of the noise levels; none: as suits the sampler"
    )
    sigma_max: float | None = Field(
        None,
        gt=0,
        description="noise, beside unit signal, of the first level; none: as much as hides data of this size, at most "
        "that of the schedule",
    )
    sigma_min: float | None = Field(
        None, gt=0, description="noise of the last level before none; none: the least of the schedule"
    )
    clip: Literal["none", "static", "dynamic"] | None = Field(
        None, description="keeps estimates within the range of the data; none: static for images"
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="in which the network computes; bfloat16 is fast on GPUs"
    )


@functools.cache
def walk_options(sampler: str, steps: int, names: tuple[str, ...]) -> type[WalkOptions]:
    """The options of the walk with the defaults of a model, and the names of all samplers."""
    return pydantic.create_model(
        "WalkOptions",
        __base__=WalkOptions,
        sampler=(str, Field(sampler, description=f"which sampler: {', '.join(names)}")),
        steps=(int, Field(steps, ge=1, description="steps from noise to data")),
    )


__all__ = ["WalkOptions", "walk_options"]
