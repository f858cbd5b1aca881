"""How examples of a game are drawn, as settings."""

from typing import Any, final

from pydantic import Field

from chainrule.models.protocol import SampleOptions


@final
class DrawOptions(SampleOptions):
    """How examples are drawn."""

    condition: Any = Field(
        None,
        description="class, labels or value, one for all or one for each, of a model that was trained so",
    )
    temperature: float = Field(
        1.0, gt=0, le=100, description="factor of the noise; below 1: more typical examples, less variety"
    )
    reject: bool = Field(
        False,
        description="keep examples in proportion to the density ratio that the discriminator sees (slower)",
    )


__all__ = ["DrawOptions"]
