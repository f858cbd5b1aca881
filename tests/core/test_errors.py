"""Errors say what is wrong and what to do, in few lines, and carry the exit code of the command line."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from chainrule.core import errors
from chainrule.core.errors import ArgumentError, ChainruleError, check_choice, spell, suggest


def test_the_message_comes_first_and_the_remedy_is_indented_below() -> None:
    error = ChainruleError("three files are broken", remedy="skip them\nor repair them")
    assert str(error) == "three files are broken\n       skip them\n       or repair them"
    assert error.message == "three files are broken"
    assert error.remedy == "skip them\nor repair them"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ArgumentError", 2),
        ("CapabilityError", 2),
        ("CheckpointError", 2),
        ("RunError", 2),
        ("DataError", 3),
        ("DivergedError", 4),
        ("DiskError", 5),
    ],
)
def test_every_kind_of_error_is_a_value_error_with_its_exit_code(name: str, code: int) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, ChainruleError)
    assert issubclass(kind, ValueError)
    assert kind.exit_code == code


def test_all_error_classes_are_public() -> None:
    kinds = [
        name
        for name, thing in vars(errors).items()
        if isinstance(thing, type) and issubclass(thing, ValueError)
    ]
    assert set(kinds) <= set(errors.__all__)


@given(st.lists(st.text(st.characters(codec="ascii", categories=["L"]), min_size=1), min_size=1, unique=True))
def test_a_list_of_options_names_each_once_and_ends_with_or(options: list[str]) -> None:
    words = spell(options)
    assert words.replace(" or ", ", ").split(", ") == [f'"{option}"' for option in options]
    assert (" or " in words) == (len(options) > 1)


def test_a_close_word_is_suggested_and_a_distant_one_is_not() -> None:
    assert suggest("wdith", ["width", "depth"]) == " (did you mean 'width'?)"
    assert suggest("colour", ["width", "depth"]) == ""


def test_a_choice_among_the_options_passes() -> None:
    check_choice("jacobian", "mode", "forward", ["forward", "reverse"])


def test_a_misspelt_choice_is_refused_with_the_closest_option() -> None:
    with pytest.raises(ArgumentError) as caught:
        check_choice("jacobian", "mode", "foward", ["forward", "reverse"])
    expected = 'jacobian(mode="foward"): mode must be "forward" or "reverse" (did you mean \'forward\'?)'
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    "value", [None, 3, np.zeros(2), ["forward"]], ids=["none", "number", "array", "list"]
)
def test_a_choice_of_another_type_is_refused_and_shown(value: object) -> None:
    with pytest.raises(ArgumentError, match=r'^jacobian\(mode=.*\): mode must be "forward" or "reverse"$'):
        check_choice("jacobian", "mode", value, ["forward", "reverse"])
