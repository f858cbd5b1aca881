"""Checkpointing: the same gradients, known peaks, optimal binomial schedules, and a plan that fits."""

import functools
import xml.etree.ElementTree as ET
from collections import Counter
from math import comb, isqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

from chainrule.core.errors import ArgumentError
from chainrule.derive.checkpointing import Chain, Repeat, binomial, checkpoint, plan
from chainrule.derive.memory_budget import MemoryBudgetError
from chainrule.derive.memory_timeline import memory

X = jnp.linspace(0.1, 1.0, 1000)


def sines(steps: int) -> Any:
    def f(x: Any) -> Any:
        for _ in range(steps):
            x = jnp.sin(x)
        return x.sum()

    return f


def network(params: Any, x: Any) -> Any:
    for w in params:
        x = jnp.tanh(checkpoint_name(x @ w, "hidden"))
    return jnp.mean(x**2)


plain_gradient = jax.jit(jax.grad(network))


def _peak(chain: Any) -> float:
    return memory(lambda x: chain(x).sum(), X).peak / X.nbytes


@pytest.mark.parametrize(("steps", "peak"), [(16, 9), (64, 17), (256, 33)])
def test_segments_of_the_square_root_peak_at_twice_the_root_plus_one(steps: int, peak: int) -> None:
    assert _peak(checkpoint([jnp.sin] * steps, "sqrt")) == peak == 2 * isqrt(steps) + 1


@pytest.mark.parametrize(("steps", "peak"), [(16, 9), (64, 17)])
def test_a_plain_function_is_cut_between_its_operations(steps: int, peak: int) -> None:
    assert memory(checkpoint(sines(steps), "sqrt"), X).peak == peak * X.nbytes


def test_a_repeated_body_is_stored_in_segments_too() -> None:
    body = Repeat(lambda state, step: jnp.sin(state), 64)
    assert _peak(checkpoint(body, None)) >= 64
    assert _peak(checkpoint(body, "sqrt")) < 20


def test_the_square_root_costs_one_more_forward_pass_at_most() -> None:
    steps = Counter(step.label for step in memory(checkpoint(sines(64), "sqrt"), X).steps)
    assert steps["cos"] == 64
    assert steps["sin"] <= 2 * 64


@functools.cache
def _best(length: int, snapshots: int) -> int:
    """The fewest advances, by trying every split."""
    if length <= 1:
        return 0
    if snapshots == 1:
        return length * (length - 1) // 2
    return min(m + _best(m, snapshots) + _best(length - m, snapshots - 1) for m in range(1, length))


def test_three_snapshots_and_three_repeats_reverse_twenty_steps() -> None:
    assert comb(6, 3) == binomial.reversible(3, 3) == 20
    chain = checkpoint([jnp.sin] * 20, "binomial", snapshots=3)
    timeline = memory(lambda x: chain(x).sum(), X)
    steps = Counter(step.label for step in timeline.steps)
    assert (steps["cos"], steps["sin"]) == (20, 45 + 1)
    assert timeline.peak == (3 + 3) * X.nbytes


@pytest.mark.parametrize("snapshots", range(1, 7))
def test_binomial_schedules_are_optimal(snapshots: int) -> None:
    for length in range(1, 40):
        assert binomial.advances(length, snapshots) == _best(length, snapshots)
        if length > 1:
            middle = binomial.split(length, snapshots)
            rest = _best(length - middle, snapshots - 1) if snapshots > 1 else 0
            assert middle + _best(middle, snapshots) + rest == _best(length, snapshots)


@pytest.mark.parametrize(("length", "snapshots"), [(2, 1), (5, 1), (7, 2), (13, 3), (24, 4)])
def test_the_program_advances_exactly_as_the_schedule_says(length: int, snapshots: int) -> None:
    chain = checkpoint([jnp.sin] * length, "binomial", snapshots=snapshots)
    timeline = memory(lambda x: chain(x).sum(), X)
    steps = Counter(step.label for step in timeline.steps)
    assert steps["sin"] - 1 == binomial.advances(length, snapshots)
    assert timeline.peak <= (snapshots + 3) * X.nbytes


@pytest.mark.parametrize(
    "policy",
    [
        None,
        "sqrt",
        2,
        100,
        "binomial",
        "dots",
        "nothing",
        ["hidden"],
        pytest.param(jax.checkpoint_policies.everything_saveable, id="everything_saveable"),
    ],
    ids=str,
)
def test_no_policy_changes_a_gradient(policy: Any) -> None:
    params = [np.full((4, 4), 0.1 * i, np.float32) for i in range(1, 6)]
    x = np.linspace(-1.0, 1.0, 8, dtype=np.float32).reshape(2, 4)
    found = jax.jit(jax.grad(checkpoint(network, policy)))(params, x)
    for mine, theirs in zip(found, plain_gradient(params, x), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("policy", [None, "sqrt", 3, "binomial", "nothing"], ids=str)
def test_chains_and_loops_have_the_gradient_of_the_plain_code(policy: Any) -> None:
    stages = [jnp.sin, lambda x: x * 1.1, jnp.tanh, lambda x: x + x**2, jnp.cos, jnp.sin, jnp.exp]
    expected = jax.jit(jax.grad(lambda x: Chain(stages).run(0, 7)(x).sum()))(X)
    found = jax.jit(jax.grad(lambda x: checkpoint(stages, policy)(x).sum()))(X)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    loop = Repeat(lambda state, step: {"x": jnp.sin(state["x"]) + 0.1 * step}, 7)
    plain = jax.jit(jax.grad(lambda x: loop.run(0, 7)({"x": x})["x"].sum()))(X)
    kept = jax.jit(jax.grad(lambda x: checkpoint(loop, policy)({"x": x})["x"].sum()))(X)
    np.testing.assert_allclose(kept, plain, rtol=1e-5)


def test_values_and_second_derivatives_survive() -> None:
    f = checkpoint(sines(9), "sqrt")
    x = jnp.array([0.3, 0.7])
    np.testing.assert_allclose(f(x), sines(9)(x), rtol=1e-6)
    expected = jax.jit(jax.hessian(sines(9)))(x)
    np.testing.assert_allclose(jax.jit(jax.hessian(f))(x), expected, rtol=1e-4, atol=1e-6)


def test_what_waits_for_the_reverse_pass_is_what_the_policy_names() -> None:
    params = [jnp.full((64, 64), 0.01)] * 6
    x = jnp.ones((256, 64))

    def waiting(policy: Any) -> float:
        roles = memory(checkpoint(network, policy), params, x).by_role
        reverse_starts = int((roles["adjoint"] > 0).argmax())
        return float((roles["primal"] + roles["residual"])[reverse_starts] - 6 * params[0].nbytes) / x.nbytes

    recomputed = 1  # the reverse pass starts by computing the first missing value again
    assert waiting("nothing") == 1 + recomputed
    given_up = params[0].nbytes / x.nbytes  # with its product stored, the first weight is not needed again
    assert waiting("dots") == waiting(["hidden"]) == 1 + 6 + recomputed - given_up
    assert waiting(None) > 1 + 6


def test_functions_of_several_arguments_and_results_can_be_cut() -> None:
    def f(p: Any, x: Any) -> Any:
        y = jnp.sin(x * p["a"])
        return {"y": y, "same": x, "three": 3.0, "z": jnp.cos(y) * p["b"]}

    p, x = {"a": jnp.asarray(2.0), "b": jnp.asarray(0.5)}, jnp.asarray(0.3)
    plain, cut = f(p, x), checkpoint(f, 1)(p, x)
    assert jax.tree.structure(plain) == jax.tree.structure(cut)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), plain, cut)


def test_a_plan_takes_the_cheapest_point_that_fits() -> None:
    found = plan([jnp.sin] * 16, X, memory=8 * X.nbytes)
    assert found.chosen.peak <= 8 * X.nbytes
    cheaper = [point for point in found.points if point.flops < found.chosen.flops]
    assert cheaper
    assert all(max(point.peak, point.compiled or 0) > 8 * X.nbytes for point in cheaper)
    assert found.chosen.compiled is not None
    assert found.chosen.compiled <= 8 * X.nbytes
    chain = found.apply()
    assert memory(chain, X).peak == found.chosen.peak
    np.testing.assert_allclose(chain(X), Chain([jnp.sin] * 16).run(0, 16)(X))


def test_with_room_enough_everything_is_stored() -> None:
    assert plan(sines(9), X, memory="1GiB").chosen.label == "store all"


def test_the_frontier_trades_memory_for_work() -> None:
    frontier = plan([jnp.sin] * 16, X, memory="1GiB").frontier
    peaks, work = [point.peak for point in frontier], [point.flops for point in frontier]
    assert peaks == sorted(peaks)
    assert work == sorted(work, reverse=True)
    assert len(set(work)) == len(work) > 3


def test_a_budget_nothing_fits_names_the_least_that_would() -> None:
    with pytest.raises(
        MemoryBudgetError, match=r"no way of checkpointing fits(.|\n)*the least is .* snapshots"
    ):
        plan([jnp.sin] * 16, X, memory=2 * X.nbytes)


def branching(x: Any) -> Any:
    """Nine sines for a positive sum, else none."""
    return sines(9)(x) if x.sum() > 0 else x.sum()


@pytest.mark.parametrize("policy", ["sqrt", "binomial", "nothing"])
def test_a_python_branch_is_followed_at_every_call(policy: str) -> None:
    slope = jax.grad(checkpoint(branching, policy))
    np.testing.assert_allclose(slope(X), jax.grad(sines(9))(X), rtol=1e-6)
    np.testing.assert_array_equal(slope(-X), np.ones_like(X))
    with pytest.raises(ArgumentError, match="checkpoint: f branches in Python"):
        jax.jit(checkpoint(branching, policy))(X)


def test_a_plan_of_a_python_branch_is_for_the_branch_taken() -> None:
    found = plan(branching, X, memory=9 * X.nbytes)
    assert found.chosen.label != "store all"
    assert found.reason.endswith("for the branch taken at these arguments")
    np.testing.assert_array_equal(jax.grad(found.apply())(-X), np.ones_like(X))
    with pytest.raises(ArgumentError, match="plan: f branches in Python"):
        plan(branching, jax.ShapeDtypeStruct(X.shape, X.dtype))


@pytest.mark.slow
def test_loops_in_branches_are_cut() -> None:
    def loop(x: Any) -> Any:
        return jax.lax.scan(lambda state, _: (jnp.sin(state), None), x, None, length=64)[0]

    def f(x: Any) -> Any:
        return jax.lax.cond(x.sum() > 0, loop, lambda x: jax.lax.cond(x[0] > 0, jnp.cos, loop, x), x).sum()

    found = plan(f, X, memory=24 * X.nbytes)
    assert found.chosen.compiled is not None
    assert found.chosen.compiled <= 24 * X.nbytes
    slope, expected = jax.jit(jax.grad(found.apply())), jax.jit(jax.grad(f))
    for x in (X, -X):
        np.testing.assert_allclose(slope(x), expected(x), rtol=1e-6)


def test_a_loop_without_an_end_in_sight_is_planned_forward() -> None:
    def f(x: Any) -> Any:
        return jax.lax.while_loop(lambda s: s.sum() > 10.0, jnp.sin, x).sum()

    found = plan(f, X, memory="1MiB")
    assert found.chosen.label == "forward mode"
    assert "no reverse rule" in found.reason
    assert found.to_json()["points"][0]["chosen"] is True
    assert "forward mode" in found.to_svg()
    assert found.apply()(X) == f(X)
    with pytest.raises(MemoryBudgetError, match="a forward product"):
        plan(f, X, memory=100)


def test_a_plan_can_be_read() -> None:
    found = plan([jnp.sin] * 9, X, memory=9 * X.nbytes)
    lines = str(found).splitlines()
    assert len(lines) == len(found.points) + 1
    (marked,) = [line for line in lines if line.startswith(">")]
    assert found.chosen.label in marked


def test_the_picture_of_a_plan_is_valid_and_marks_the_choice() -> None:
    found = plan([jnp.sin] * 9, X, memory=9 * X.nbytes)
    shown = " ".join(node.text or "" for node in ET.fromstring(found.to_svg()).iter())
    assert f"chosen: {found.chosen.label}" in shown
    assert set(found.picture().groups) == {"considered", "worth taking", "chosen"}


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((jnp.sin, "sqr"), {}, r"did you mean 'sqrt'"),
        ((jnp.sin, 0), {}, "at least one step"),
        ((jnp.sin, "sqrt"), {"snapshots": 3}, 'belong to policy="binomial"'),
        (([jnp.sin] * 4, "binomial"), {"snapshots": 0}, "at least one snapshot"),
        (([], "sqrt"), {}, "non-empty list of functions"),
    ],
)
def test_bad_requests_are_explained(arguments: Any, options: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        checkpoint(*arguments, **options)


def test_a_loop_needs_a_step() -> None:
    with pytest.raises(ArgumentError, match="at least 1"):
        Repeat(lambda state, step: state, 0)
