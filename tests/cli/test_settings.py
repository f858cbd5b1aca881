from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import Field

from chainrule.cli import settings
from chainrule.core.errors import ArgumentError


class Inner(pydantic.BaseModel):
    rate: float = Field(0.5, gt=0, le=1, description="speed")


class Schema(pydantic.BaseModel):
    count: int = Field(3, ge=1, description="how many")
    inner: Inner = Field(default_factory=Inner)
    sizes: tuple[int, ...] = ()
    pair: tuple[float, str] = (0.5, "a")
    level: Literal["low", "high", 3] = "low"
    limit: float | None = None
    widths: int | tuple[int, ...] = 4
    flag: bool = False
    free: dict[str, Any] = Field(default_factory=dict)
    must: str


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "12", 12),
        ("inner.rate", "1e-1", 0.1),
        ("sizes", "1,2, 3", (1, 2, 3)),
        ("sizes", "7", (7,)),
        ("sizes", "", ()),
        ("pair", "0.25,none", (0.25, "none")),
        ("level", "high", "high"),
        ("level", "3", 3),
        ("limit", "none", None),
        ("limit", "2", 2.0),
        ("widths", "5", 5),
        ("widths", "5,6", (5, 6)),
        ("flag", "true", True),
        ("flag", "false", False),
        ("free.critic.lr", "1e-4", 1e-4),
        ("must", "none", "none"),
        ("must", "12", "12"),
    ],
)
def test_text_becomes_a_value_by_the_type_of_its_setting(name: str, text: str, value: object) -> None:
    known = settings.of(Schema)
    found = settings.find(name, known)
    assert found is not None
    head, *below = name.split(".")
    given: Any = settings.read(text, found.annotation)
    for group in reversed(below):
        given = {group: given}
    read = Schema(**{"must": "x", head: given}).model_dump()[head]
    for group in below:
        read = read[group]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", ["__import__('os').system('true')", "[1, 2]", "{}", "1+1"])
def test_text_is_never_evaluated(text: str) -> None:
    assert settings.guess(text.replace(",", ";")) == text.replace(",", ";")
    assert settings.read(text, str) == text


@pytest.mark.parametrize(
    "annotation", [list[int], Sequence[int], Annotated[list[int], "note"], list[int] | None]
)
def test_every_kind_of_sequence_is_split_at_commas(annotation: Any) -> None:
    assert settings.read("1,2", annotation) == ["1", "2"]


@pytest.mark.parametrize("value", [3, 0.1, 1e-8, True, None, "text", [1, 2], [0.8, 0.1, 0.1]])
def test_what_is_written_is_read_back(value: object) -> None:
    assert settings.guess(settings.write(value)) == value


def test_settings_say_their_default_and_range() -> None:
    known = settings.of(Schema)
    assert known["count"].allowed == "int >= 1"
    assert known["inner.rate"].allowed == "float > 0 and <= 1"
    assert known["inner.rate"].default == "0.5"
    assert known["level"].allowed == "low, high, 3"
    assert known["limit"].allowed == "float or none"
    assert known["flag"].allowed == "true, false"
    assert known["sizes"].allowed == "int,..."
    assert known["pair"].allowed == "float,text"
    assert known["must"].default == "required"
    assert known["count"].description == "how many"


def test_names_below_an_open_group_belong_to_it_and_others_do_not() -> None:
    known = settings.of(Schema)
    assert settings.find("free.a.b", known) is known["free"]
    assert settings.find("inner.speed", known) is None
    assert settings.find("count.more", known) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rate", "did you mean 'inner.rate'?"),
        ("cuont", "did you mean 'count'?"),
        ("inner.ratio", "did you mean 'inner.rate'?"),
        ("inner", "'inner' has settings of its own: inner.rate"),
        ("zzz", "unknown setting 'zzz'$"),
    ],
)
def test_an_unknown_setting_is_answered_with_the_closest_one(name: str, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        raise settings.unknown(name, settings.of(Schema), "look it up")
    first, *rest = str(caught.value).splitlines()
    assert message.rstrip("$") in first
    assert not message.endswith("$") or first.endswith(message.rstrip("$"))
    assert rest == ["       look it up"]
