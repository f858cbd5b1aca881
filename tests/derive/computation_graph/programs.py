"""Random straight-line programs over short vectors, for properties that must hold for any of them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": jnp.sin,
    "square": lambda x: 0.3 * x**2,
    "scale": lambda x: 0.5 * x,
    "sum": lambda x: jnp.broadcast_to(x.sum() / 3, x.shape),
    "roll": lambda x: jnp.roll(x, 1),
    "relu": jax.nn.relu,
    "call": jax.jit(lambda x: jnp.tanh(x) * x),
    "loop": lambda x: jax.lax.scan(lambda c, _: (jnp.sin(c), c), x, None, length=2)[1].sum(0),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": jnp.add,
    "mul": jnp.multiply,
    "sub": jnp.subtract,
    "max": jnp.maximum,
}
Line = tuple[str, int, int]


def lines(longest: int = 8) -> st.SearchStrategy[list[Line]]:
    """Lines (operation, operand, operand); operands count back from the newest value."""
    one = st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 9), st.integers(0, 9))
    return st.lists(one, min_size=1, max_size=longest)


def build(program: Sequence[Line]) -> Callable[[Any], Any]:
    """The function a list of lines describes."""

    def function(x: Any) -> Any:
        values = [x]
        for name, first, second in program:
            a, b = values[-1 - first % len(values)], values[-1 - second % len(values)]
            values.append(UNARY[name](a) if name in UNARY else BINARY[name](a, b))
        return values[-1].sum()

    return function
