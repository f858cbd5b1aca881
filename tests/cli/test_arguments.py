import hypothesis
import pytest
from hypothesis import strategies as st

from chainrule.cli.arguments import flatten, nest, parse, take
from chainrule.core.errors import ArgumentError

NAMES = st.text("abcdefgh_", min_size=1, max_size=5)


def test_names_and_settings_may_come_in_any_order() -> None:
    words = parse(["steps=20", "mlp", "width=8"])
    assert words.names == ("mlp",)
    assert words.settings == {"steps": "20", "width": "8"}


def test_a_value_may_hold_an_equals_sign_and_may_be_empty() -> None:
    assert parse(["prompt=a=b", "name="]).settings == {"prompt": "a=b", "name": ""}


def test_of_a_setting_given_twice_the_last_counts() -> None:
    assert parse(["steps=1", "steps=2"]).settings == {"steps": "2"}


@pytest.mark.parametrize("word", ["=3", "3x=4", "a..b=1", "a.=1", ".a=1", "a b=1"])
def test_a_key_that_is_no_name_is_refused(word: str) -> None:
    with pytest.raises(ArgumentError, match="is not a setting"):
        parse([word])


def test_missing_and_surplus_names_are_told() -> None:
    with pytest.raises(ArgumentError, match="missing RUN"):
        take(parse(["n=4"]), "RUN")
    with pytest.raises(ArgumentError, match="unexpected word 'b'"):
        take(parse(["a", "b"]), "RUN")
    with pytest.raises(ArgumentError, match=r"unexpected word 'my b'\n +did you mean data='my b'"):
        take(parse(["a", "my b"]), "RUN", spare="data")


@hypothesis.given(st.dictionaries(NAMES, st.integers() | st.dictionaries(NAMES, st.integers(), min_size=1)))
def test_nesting_undoes_flattening(tree: dict[str, object]) -> None:
    assert nest(flatten(tree)) == tree


@pytest.mark.parametrize("given", [{"a": "1", "a.b": "2"}, {"a.b": "2", "a": "1"}])
def test_a_group_with_a_value_of_its_own_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ArgumentError):
        nest(given)
