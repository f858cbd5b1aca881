"""The run-time type checker of the suite looks at the code, and lets the tests beside it alone."""

import sys

import jax.numpy as jnp
import pytest

from chainrule.nn import losses


def test_annotations_of_the_code_are_enforced() -> None:
    with pytest.raises(Exception, match="[Tt]ype"):
        losses.squared_error(jnp.zeros(3), "zero")  # type: ignore[arg-type]


def test_modules_of_tests_are_left_as_they_are() -> None:
    (finder,) = (f for f in sys.meta_path if type(f).__module__ == "jaxtyping._import_hook")
    assert finder.should_instrument("chainrule.nn.losses")  # type: ignore[attr-defined]
    assert not finder.should_instrument("chainrule.models.diffusion.vdm.test_vdm")  # type: ignore[attr-defined]
