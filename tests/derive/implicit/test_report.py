"""Solutions tell how they were found: one report for a single solve, a batch, a program."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import CapabilityError
from chainrule.derive import implicit

cubic = lambda w, a: w**3 + w - a  # noqa: E731


@pytest.mark.parametrize("linear", ["lu", "gmres"])
def test_the_report_of_a_root_has_what_was_checked(linear: str) -> None:
    found = implicit.root(cubic, linear=linear).details(jnp.ones(3), jnp.arange(1.0, 4.0))
    report = found.report
    assert (report.what, report.unknowns, report.solutions, report.failed) == ("root", 3, 1, 0)
    assert report.steps == int(found.stats.steps)
    # Newton's steps and the one of all derivatives; iterations have none
    assert report.factorisations == (report.steps + 1 if linear == "lu" else 0)
    assert report.checks["residual"] < 1e-12
    known = "reciprocal condition" in str(report)
    assert known == (linear == "lu")
    assert json.loads(json.dumps(report.to_json()))["condition"] == "none"
    assert "<pre>root of 3 unknowns" in report._repr_html_()


def test_the_report_of_a_batch_has_the_worst_of_it_and_says_what_failed() -> None:
    solve = implicit.root(lambda w, a: w**2 - a, on_failure="nan")
    batch = jax.vmap(lambda a: solve.details(1.0, a))(jnp.array([1.0, 4.0, 0.0]))
    report = batch.report
    assert (report.solutions, report.failed, report.condition) == (3, 1, "not isolated")
    assert report.steps == int(np.max(batch.stats.steps))
    assert "failed    1 of 3: not isolated" in str(report)


def test_the_users_solver_has_no_steps_of_ours() -> None:
    solve = implicit.root(lambda w, a: w**2 - a, solver=lambda F, w0, a: jnp.sqrt(a))
    report = solve.details(1.0, 2.0).report
    assert report.steps is None
    assert "by the given solver, 1 factorisation" in str(report)


def test_programs_have_a_report_too() -> None:
    c, A, b = np.array([1.0, 2.0, 0.0]), np.array([[1.0, 1.0, -1.0]]), np.array([1.0])

    def program(b: Any) -> Any:
        return implicit.linear_program(c, A, b, on_failure="nan")

    report = program(b).report
    assert (report.what, report.unknowns, report.failed) == ("linear_program", 3, 0)
    assert set(report.checks) == {"primal error", "dual error", "gap"}
    with pytest.raises(CapabilityError, match="report of linear_program: it runs on numbers"):
        jax.jit(lambda b: program(b).report.steps)(b)
