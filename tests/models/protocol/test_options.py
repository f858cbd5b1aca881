"""Options of sampling as schemas: what is read, what is refused, and with which words."""

from typing import Annotated, Any, Literal

import numpy as np
import pydantic
import pytest
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.models.protocol.options import (
    OptionGroup,
    SampleOptions,
    from_signature,
    option_fields,
    read_options,
)


class Walk(SampleOptions):
    """How to walk."""

    sampler: str = Field("slow", description="which sampler")
    steps: int = Field(50, ge=1, description="evaluations of the network")
    clip: Literal["none", "static"] = Field("none", description="range of estimates")


class Slow(SampleOptions):
    """Of the slow sampler."""

    noise: float = Field(1.0, ge=0, lt=2, description="added in a step")


class Fast(SampleOptions):
    """Of the fast sampler."""

    order: int = Field(2, gt=0, description="of the method")

    @pydantic.field_validator("order")
    @classmethod
    def _even(cls, order: int) -> int:
        if order % 2:
            raise ValueError(f"order={order}: only even orders are known")
        return order


GROUPS = [
    OptionGroup("walk", "", Walk),
    OptionGroup("slow", "", Slow, ("sampler", "slow")),
    OptionGroup("fast", "", Fast, ("sampler", "fast")),
]


def test_groups_count_under_their_choice_and_defaults_fill_the_rest() -> None:
    assert read_options(GROUPS, {}) == {"walk": Walk(), "slow": Slow()}
    found = read_options(GROUPS, {"sampler": "fast", "steps": np.int64(3), "order": 4})
    assert found == {"walk": Walk(sampler="fast", steps=3), "fast": Fast(order=4)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"step": 3},
            r"unknown option 'step' \(did you mean 'steps'\?\)\n.*options: sampler, steps, clip, noise",
        ),
        (
            {"order": 3},
            r"sampler 'slow' does not take order; it is an option of sampler=fast\n.*slow takes: noise",
        ),
        ({"steps": 0}, r"^steps=0: steps must be at least 1\n.*steps: evaluations of the network"),
        ({"steps": "many"}, "^steps=many: steps must be a whole number"),
        ({"noise": 2}, "^noise=2: noise must be at least 0 and below 2"),
        ({"noise": "much"}, "^noise=much: noise must be a number"),
        ({"clip": "statik"}, r'clip must be "none" or "static" \(did you mean \'static\'\?\)'),
        ({"sampler": 3}, "sampler must be text"),
        ({"sampler": "fast", "order": 0}, "order must be above 0"),
        ({"sampler": "fast", "order": 3}, "^order=3: only even orders are known$"),
    ],
    ids=range(10),
)
def test_what_does_not_fit_is_refused_in_plain_words(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        read_options(GROUPS, given)


def test_a_signature_is_a_schema_too() -> None:
    def sample(
        key: Any, n: int, *, condition: Any = None, size: Annotated[float, Field(gt=0, description="d")] = 1.0
    ) -> None: ...

    groups = from_signature(sample)
    assert list(option_fields(groups)) == ["condition", "size"]
    assert option_fields(groups)["size"].description == "d"
    with pytest.raises(ArgumentError, match="size must be above 0"):
        read_options(groups, {"size": 0})


def test_a_signature_with_free_options_lets_them_pass() -> None:
    def sample(key: Any, n: int, *, size: float = 1.0, **options: Any) -> None: ...

    (group,) = from_signature(sample)
    assert group.is_open
    found = read_options([group], {"size": 2, "colour": "red"})["options"]
    assert found.model_dump() == {"size": 2.0, "colour": "red"}
