"""The bound of adaptation: a counter-example to its short form, many problems at random, couplings."""

import numpy as np
import pytest
from scipy import optimize

from chainrule.core.errors import ArgumentError
from chainrule.probability.divergences import maximal_coupling, most_telling_event, tv, tv2
from chainrule.transfer import (
    AdaptationBound,
    finite_bound,
    h_divergence,
    sampling_slack,
    symmetric_difference_divergence,
)

# Points a, b, c, d; P on {b, d}, Q on {a, c}; hypotheses 1_ab and 1_bc.
P, Q = [0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0]
AB, BC = [1, 1, 0, 0], [0, 1, 1, 0]


def test_with_the_divergence_of_single_hypotheses_the_bound_is_false() -> None:
    bound = finite_bound(P, Q, [AB, BC], chosen=1, truth=AB)
    single = h_divergence(P, Q, [AB, BC]).value
    assert (bound.source_error, single, bound.joint_error, bound.target_error) == (0.0, 0.0, 0.0, 1.0)
    assert bound.target_error > bound.source_error + single / 2 + bound.joint_error
    assert bound.divergence / 2 == 1.0
    assert bound.value == bound.target_error
    assert bound.holds
    assert symmetric_difference_divergence(P, Q, [AB, BC]).witness in ((0, 1), (1, 0))


@pytest.mark.parametrize("problems", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_bound_holds_in_all_problems_and_is_tight_in_some(problems: int) -> None:
    rng = np.random.default_rng(0)
    broken_by_the_short_form = tight = 0
    for _ in range(problems):
        points, count = rng.integers(2, 7), rng.integers(1, 6)
        p, q = rng.dirichlet(np.full(points, 0.3), size=2)
        table = rng.integers(0, 2, (count, points))
        truths = rng.integers(0, 2, (2, points))
        bound = finite_bound(p, q, table, int(rng.integers(count)), truths[0], truths[1])
        assert bound.holds
        assert bound.target_error is not None
        assert bound.joint_error is not None
        tight += bound.target_error > bound.value - 1e-6
        short = bound.source_error + h_divergence(p, q, table).value / 2 + bound.joint_error
        broken_by_the_short_form += bound.target_error > short + 1e-9
    assert tight > 0
    assert broken_by_the_short_form > 0


def test_divergences_are_those_of_enumeration_and_at_most_twice_the_total_variation() -> None:
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(6), size=2)
    table = rng.integers(0, 2, (4, 6))
    single = max(2 * abs(float(p @ h - q @ h)) for h in table)
    pairs = max(2 * abs(float(p @ (a != b) - q @ (a != b))) for a in table for b in table)
    assert abs(h_divergence(p, q, table).value - single) < 1e-12
    assert abs(symmetric_difference_divergence(p, q, table).value - pairs) < 1e-12
    everything = np.array([[int(d) for d in f"{i:06b}"] for i in range(64)])
    for divergence in (h_divergence, symmetric_difference_divergence):
        assert abs(divergence(p, q, everything).value - float(tv2(p, q))) < 1e-6


def test_total_variation_is_a_supremum_an_integral_and_a_coupling() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    events = [np.array([int(d) for d in f"{i:03b}"]) for i in range(8)]
    supremum = max(abs(float(p @ event - q @ event)) for event in events)
    margins = np.zeros((6, 9))
    for i in range(3):
        margins[i, 3 * i : 3 * i + 3] = 1
        margins[3 + i, i::3] = 1
    found = optimize.linprog(
        1 - np.eye(3).ravel(), A_eq=margins, b_eq=np.concatenate([p, q]), bounds=(0, None), method="highs"
    )
    joint = np.asarray(maximal_coupling(p, q))
    np.testing.assert_allclose(joint.sum(axis=1), p, atol=1e-6)
    np.testing.assert_allclose(joint.sum(axis=0), q, atol=1e-6)
    event = np.asarray(most_telling_event(p, q))
    values = [
        supremum,
        found.fun,
        1 - np.trace(joint),
        float(tv(p, q)),
        float(tv2(p, q)) / 2,
        (p - q)[event].sum(),
    ]
    np.testing.assert_allclose(values, 0.4, atol=1e-6)
    assert abs(float(tv2(p, q)) - 0.8) < 1e-6
    np.testing.assert_allclose(maximal_coupling(p, p), np.diag(p), atol=1e-7)


def test_a_report_names_every_term_and_promises_nothing_without_labels() -> None:
    unknown = AdaptationBound(0.02, 0.6, sampling=sampling_slack(1000))
    text = "\n".join(unknown.lines())
    assert "guarantee" not in text
    assert "not known, it needs labels of the target" in text
    assert unknown.holds is None
    known = AdaptationBound(0.02, 0.6, 0.01, target_error=0.2)
    assert "estimate of the bound on the target error 0.3300" in "\n".join(known.lines())
    assert known.holds
    picture = known.picture()
    assert abs(float(picture.steps.sum()) - known.value) < 1e-12
    assert "Terms are estimates" in picture.caption
    assert "says nothing" in "\n".join(AdaptationBound(0.2, 1.8, 0.1).lines())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: h_divergence([0.5, 0.6], Q[:2], [AB[:2]]), "add up to 1"),
        (lambda: h_divergence(P, Q, [[2, 0, 0, 0]]), "entries are 0 or 1"),
        (lambda: finite_bound(P, Q, [AB], 3, AB), "numbered 0 to 0"),
        (lambda: AdaptationBound(-0.1, 0.0), "at least 0"),
        (lambda: sampling_slack(0), "an example or more"),
    ],
)
def test_wrong_arguments_are_named(call: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()  # type: ignore[operator]  # a function without arguments
