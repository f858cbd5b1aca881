"""Options of decoding as schemas: what is offered, and what does not go together."""

import pytest

from chainrule.core.errors import ArgumentError
from chainrule.models.protocol import option_fields
from chainrule.models.text.decoding import GROUPS, Decoding


def test_every_option_has_a_default_and_a_description() -> None:
    fields = option_fields(GROUPS)
    assert {"prompt", "length", "stop", "temperature", "top_p", "banned", "beams", "length_penalty"} <= set(
        fields
    )
    assert all(field.description and not field.is_required() for field in fields.values())


def test_an_option_of_another_order_of_beams_is_refused() -> None:
    with pytest.raises(ArgumentError, match="search 'gumbel' does not take length_penalty"):
        Decoding.read({"beams": 2, "search": "gumbel", "length_penalty": 1.0})
    assert Decoding.read({"beams": 2, "length_penalty": 1.0}).beam.beams == 2


def test_strings_are_given_alone_or_together() -> None:
    assert Decoding.read({"stop": "END"}).text.stops == ("END",)
    assert Decoding.read({"stop": ["a", "b"]}).text.stops == ("a", "b")
    assert Decoding.read({}).text.stops == ()
