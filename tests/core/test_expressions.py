"""Formulas of a person's own: arithmetic as NumPy has it, derivatives by JAX, and nothing else let through."""

import inspect

import jax
import numpy as np
import pytest

from chainrule.core import expressions
from chainrule.core.errors import ArgumentError


def test_a_formula_is_the_function_it_says() -> None:
    f = expressions.read("a*sin(x)^2 - -x/(1 + e**(-y)) + max(x, pi) - 2**3**0.5")
    assert f.variables == ("a", "x", "y")
    assert list(inspect.signature(f).parameters) == ["a", "x", "y"]
    a, x, y = 0.7, -1.2, 0.4
    expected = a * np.sin(x) ** 2 + x / (1 + np.exp(-y)) + np.pi - 2 ** (3**0.5)
    np.testing.assert_allclose(f(a, x, y), expected, rtol=1e-6)


def test_whole_powers_have_derivatives_at_negative_numbers_and_numbers_alone_may_overflow() -> None:
    assert float(jax.grad(expressions.read("x**3"))(-2.0)) == pytest.approx(12.0)
    assert float(expressions.read("x + 1/0")(1.0)) == np.inf
    assert float(expressions.read("x + 9**9**9**9")(1.0)) == np.inf


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("__import__('os')", "there is no function '__import__'"),
        ("x.real", "'x.real' is not arithmetic"),
        ("sin", "sin is a function"),
        ("sinn(x)", "did you mean 'sin'"),
        ("sin(x, y)", "sin takes 1 and not 2"),
        ("max(x)", "max takes 2 and not 1"),
        ("x if x else y", "is not arithmetic"),
        ("[x for x in y]", "is not arithmetic"),
        ("x +", "not a formula"),
        ("'x'", "is not arithmetic"),
        ("True", "is not arithmetic"),
        ("1e999*x", "too large"),
        ("(lambda: x)()", "is not arithmetic"),
        ("x" * 2000, "at most 1000"),
        ("(" * 400 + "x" + ")" * 400, "not a formula"),
    ],
)
def test_what_is_not_arithmetic_is_refused(text: str, why: str) -> None:
    with pytest.raises(ArgumentError, match=why.replace("(", r"\(").replace(")", r"\)")):
        expressions.read(text)
