"""Solves couple what chains of nonzero entries connect, and nothing else."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.derive.sparse import detect
from chainrule.derive.sparse.detection.rules import solving
from tests.derive.sparse.detection.corpus.solving import BLOCKS, DIAGONAL, LOWER, SOLVES, N


@pytest.mark.parametrize("name", list(SOLVES))
def test_structured_solves_have_the_pattern_of_the_inverse(name: str) -> None:
    f, expected = SOLVES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = detect(f, np.ones(N)).to_scipy().toarray() != 0
    np.testing.assert_array_equal(found, expected)


def test_second_derivatives_of_a_root_are_diagonal() -> None:
    f, _ = SOLVES["root"]
    found = detect(lambda x: jnp.sum(f(x) ** 2), np.ones(N), "hessian").to_scipy().toarray() != 0
    np.testing.assert_array_equal(found, DIAGONAL)


def _product(matrix: np.ndarray) -> object:
    return lambda x: jax.lax.custom_linear_solve(
        lambda v: jnp.where(matrix, 2.0, 0.0) @ v, x, lambda _, b: b, lambda _, b: b
    )


@pytest.mark.parametrize("matrix", [DIAGONAL, LOWER, BLOCKS, LOWER.T & BLOCKS], ids=range(4))
def test_the_solves_of_jax_follow_chains_too(matrix: np.ndarray) -> None:
    found = detect(_product(matrix), np.ones(N)).to_scipy().toarray() != 0
    np.testing.assert_array_equal(found, matrix)


def test_where_chains_are_too_many_whatever_is_connected_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "_CHAINS", 0)
    found = detect(_product(LOWER & BLOCKS), np.ones(N)).to_scipy().toarray() != 0
    np.testing.assert_array_equal(found, BLOCKS)
