"""Solutions are differentiated in double precision; tests that are about single precision say so themselves."""

from collections.abc import Callable

import jax
import pytest

from tests.derive.precision import double_precision, quick_compilation

__all__ = ["NESTINGS", "double_precision", "quick_compilation", "second"]

NESTINGS: dict[str, Callable[..., Callable[..., jax.Array]]] = {
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "forward over reverse": lambda f: jax.jacfwd(jax.jacrev(f)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f)),
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(f)),
}


@pytest.fixture(params=NESTINGS)
def second(request: pytest.FixtureRequest) -> Callable[..., Callable[..., jax.Array]]:
    """Second derivatives, each way of nesting the two modes."""
    return NESTINGS[request.param]
