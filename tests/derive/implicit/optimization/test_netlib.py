"""Two of the Netlib linear programs: a degenerate one (AFIRO) and one whose vertex is regular (KB2)."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog

from chainrule.core.errors import ImplicitFunctionError
from chainrule.derive.implicit.optimization.linear import linear_program

FOLDER = Path(__file__).parents[3] / "reference" / "netlib"


def load(name: str) -> tuple[np.ndarray, scipy.sparse.csr_array, np.ndarray, float]:
    data: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    entries = (np.asarray(data["values"], float), (data["rows"], data["cols"]))
    A = scipy.sparse.csr_array(entries, shape=tuple(data["shape"]))
    return np.asarray(data["c"], float), A, np.asarray(data["b"], float), data["optimum"]


@pytest.mark.parametrize("name", ["afiro", "kb2"])
def test_the_published_optimum_is_found(name: str) -> None:
    c, A, b, optimum = load(name)
    solution = linear_program(c, A.toarray(), b)
    assert float(solution.value) == pytest.approx(optimum, rel=1e-9)
    assert bool(solution.stats.polished)
    assert float(b @ solution.y) == pytest.approx(float(solution.value), rel=1e-12)
    assert solution.s.min() > -1e-11


def test_too_few_steps_are_reported() -> None:
    c, A, b, _ = load("afiro")
    with pytest.raises(ImplicitFunctionError, match="not a solution after 2 steps") as caught:
        linear_program(c, A.toarray(), b, max_steps=2)
    assert caught.value.condition == "not a solution"
    assert caught.value.residual > 1e-6


def test_afiro_is_degenerate_and_says_so_when_differentiated() -> None:
    c, A, b, _ = load("afiro")
    with pytest.raises(ImplicitFunctionError, match="22 of the variables are positive, 27 equations"):
        jax.grad(lambda b: linear_program(c, A.toarray(), b).value)(b)


@pytest.mark.slow
def test_the_value_of_kb2_moves_as_its_multipliers_and_highs_say() -> None:
    c, A, b, _ = load("kb2")
    dense = A.toarray()
    solution = linear_program(c, dense, b)
    by_c, by_b = jax.grad(lambda c, b: linear_program(c, dense, b).value, argnums=(0, 1))(c, b)
    np.testing.assert_allclose(by_b, solution.y, atol=1e-9)
    np.testing.assert_allclose(by_c, solution.x, atol=1e-9)
    sparse = jax.grad(lambda b: linear_program(c, A, b, solver="highs").value)(jnp.asarray(b))
    np.testing.assert_allclose(sparse, solution.y, atol=1e-8)
    step = 1e-4
    for i in np.argsort(-np.abs(np.asarray(solution.y)))[:4]:
        change = step * np.eye(len(b))[i]
        ahead, behind = (linprog(c, A_eq=A, b_eq=b + sign * change, method="highs").fun for sign in (1, -1))
        assert (ahead - behind) / (2 * step) == pytest.approx(float(by_b[i]), rel=1e-6)
