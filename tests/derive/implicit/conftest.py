"""Solutions are differentiated in double precision; tests that are about single precision say so themselves."""

from collections.abc import Callable, Iterator

import jax
import pytest

NESTINGS: dict[str, Callable[..., Callable[..., jax.Array]]] = {
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "forward over reverse": lambda f: jax.jacfwd(jax.jacrev(f)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f)),
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(f)),
}


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(params=NESTINGS)
def second(request: pytest.FixtureRequest) -> Callable[..., Callable[..., jax.Array]]:
    """Second derivatives, each way of nesting the two modes."""
    return NESTINGS[request.param]
