"""No position where a derivative is different from zero is ever missed, and no function is refused."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.derive.sparse import Pattern, detect
from tests.derive.sparse.detection.corpus import CASES
from tests.derive.sparse.detection.corpus.case import Case, tight
from tests.derive.sparse.detection.dense import truth


def fault(case: Case, pattern: Pattern) -> str:
    """What is wrong with the pattern found for a function; nothing if it is as it must be."""
    found, real = pattern.to_scipy().toarray() != 0, truth(case)
    if found.shape != real.shape:
        return f"has shape {found.shape}, not {real.shape}"
    if np.any(real & ~found):
        return f"missed {np.sum(real & ~found)} entries"
    if case.exact and not np.array_equal(found, real):
        return f"has {found.sum()} entries where {real.sum()} are needed"
    return ""


def test_the_corpus_is_large_and_its_names_are_distinct() -> None:
    assert len(CASES) >= 400
    assert len({case.name for case in CASES}) == len(CASES)


def _sampled(cases: list[Case], every: int) -> list[Any]:
    """Every so many cases (the corpus is in order of kind, so each kind has its share); the others are slow."""
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if n % every else [])
        for n, case in enumerate(cases)
    ]


@pytest.mark.parametrize("case", _sampled(CASES, every=6))
def test_every_nonzero_derivative_has_its_entry(case: Case) -> None:
    assert fault(case, detect(case.f, case.points()[0], of=case.of)) == ""


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (Pattern([], [], (3, 3)), "missed 3 entries"),
        (Pattern([0, 1, 2, 0], [0, 1, 2, 1], (3, 3)), "has 4 entries where 3 are needed"),
        (Pattern([0], [0], (1, 3)), r"has shape \(1, 3\)"),
    ],
)
def test_a_wrong_pattern_would_be_seen(pattern: Pattern, says: str) -> None:
    assert re.match(says, fault(tight("squares", lambda x: x**2, (3,)), pattern))


PLACES = np.array([1, 3])
APPLIED: dict[str, Any] = {
    "one place": (lambda x: x.at[1].apply(jnp.sin), np.eye(5)),
    "several places": (lambda x: x.at[PLACES].apply(jnp.sin), np.eye(5)),
    "a slice": (lambda x: x.at[1:3].apply(jnp.square), np.eye(5)),
    "a place that depends on x": (lambda x: x.at[jnp.argmax(x)].apply(jnp.exp), np.eye(5)),
    "under vmap": (
        lambda x: jax.vmap(lambda k: (2.0 * x).at[k].apply(jnp.sin))(PLACES),
        np.concatenate([np.eye(5), np.eye(5)]),
    ),
}


@pytest.mark.parametrize("name", APPLIED)
def test_functions_applied_at_places_keep_what_stood_there(name: str) -> None:
    """`x.at[i].apply(f)` has no derivative rule in JAX, so the patterns are written down."""
    f, expected = APPLIED[name]
    assert np.array_equal(detect(f, np.ones(5)).to_scipy().toarray() != 0, expected)


def test_a_hessian_without_any_rule_has_every_pair_of_what_the_value_depends_on() -> None:
    found = detect(lambda x: jnp.sum(x[:3].at[1].apply(jnp.sin)), np.ones(4), of="hessian")
    expected = np.zeros((4, 4))
    expected[:3, :3] = 1
    assert np.array_equal(found.to_scipy().toarray() != 0, expected)
