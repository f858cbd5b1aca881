"""Live memory over time: known peaks, an independent simulation, roles, holders and pictures."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax import lax
from jax.extend.core import Literal

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.memory_timeline import memory, peak_bytes
from tests.derive.computation_graph.programs import Line, build, lines

X = jnp.linspace(0.1, 1.0, 1000)


def sines(steps: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(steps):
            x = jnp.sin(x)
        return x.sum()

    return f


@pytest.mark.parametrize("steps", [1, 4, 16, 64, 256])
@pytest.mark.parametrize("mode", ["evaluate", "forward", "reverse"])
def test_sine_steps_peak_at_two_four_and_steps_plus_two_vectors(mode: str, steps: int) -> None:
    expected = {"evaluate": 2, "forward": 4, "reverse": steps + 2}[mode]
    assert memory(sines(steps), X, mode=mode).peak == expected * X.nbytes


def _simulate(program: Any) -> int:
    """Peak bytes by walking the program and keeping a set of what is alive: slow, and independent of the schedule."""
    equations, outputs = list(program.eqns), [a for a in program.jaxpr.outvars if not isinstance(a, Literal)]
    needed = [set(outputs)]
    for equation in reversed(equations):
        needed.append(needed[-1] | {a for a in equation.invars if not isinstance(a, Literal)})
    needed.reverse()
    alive = {v for v in [*program.jaxpr.constvars, *program.jaxpr.invars] if v in needed[0]}
    peak = 0
    for equation, later in zip(equations, needed[1:], strict=True):
        alive |= set(equation.outvars)
        peak = max(peak, sum(v.aval.size * v.aval.dtype.itemsize for v in alive))
        alive = {v for v in alive if v in later}
    return peak


@settings(max_examples=15)
@given(lines())
def test_the_peak_is_that_of_a_simulation(program: list[Line]) -> None:
    straight = [line for line in program if line[0] != "loop"]
    f = build(straight)
    traced = eqs.without_dead_code(
        eqs.inline(jax.make_jaxpr(f)(X), lambda equation: eqs.body(equation) is not None)
    )
    assert memory(f, X, mode="evaluate").peak == _simulate(traced)
    gradient = eqs.without_dead_code(
        eqs.inline(
            jax.make_jaxpr(lambda x, v: jax.jvp(f, (x,), (v,)))(X, X),
            lambda equation: eqs.body(equation) is not None,
        )
    )
    assert memory(f, X, mode="forward").peak == _simulate(gradient)


def test_roles_add_up_to_the_whole() -> None:
    for mode in ("evaluate", "forward", "reverse"):
        timeline = memory(sines(5), X, mode=mode)
        np.testing.assert_array_equal(sum(timeline.by_role.values()), timeline.timeline)


def test_each_mode_has_its_roles() -> None:
    present = {
        mode: {role for role, live in memory(sines(5), X, mode=mode).by_role.items() if live.any()}
        for mode in ("evaluate", "forward", "reverse")
    }
    assert present == {
        "evaluate": {"primal"},
        "forward": {"primal", "tangent"},
        "reverse": {"primal", "residual", "adjoint"},
    }


def test_residuals_grow_forward_and_shrink_backward() -> None:
    residual = memory(sines(4), X).by_role["residual"] // X.nbytes
    assert residual.max() == 4
    peak = int(residual.argmax())
    assert (np.diff(residual[: peak + 1]) >= 0).all()
    assert (np.diff(residual[peak:]) <= 0).all()


def test_the_holders_of_the_peak_are_named_by_line() -> None:
    first, *others = memory(sines(8), X).peak_holders
    assert (first.role, first.label, first.values, first.bytes) == ("residual", "cos", 8, 8 * X.nbytes)
    assert first.source is not None
    assert first.source.text == "x = jnp.sin(x)"
    assert first.bytes + sum(holder.bytes for holder in others) == memory(sines(8), X).peak


def test_a_parameter_needed_by_the_reverse_pass_is_a_residual_not_a_copy() -> None:
    w = jnp.ones((100, 100))
    timeline = memory(lambda w, x: jnp.sum((x @ w) @ w), w, jnp.ones((1, 100)))
    assert timeline.by_role["residual"].max() < 2 * w.nbytes
    assert timeline.peak < 5 * w.nbytes


def test_the_carried_pair_of_a_forward_scan_is_told_apart() -> None:
    def looped(x: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=16)[0]

    timeline = memory(looped, X, mode="forward")
    assert timeline.peak == 4 * X.nbytes
    assert timeline.by_role["tangent"].max() == 2 * X.nbytes


def test_a_reverse_scan_stores_one_residual_per_step() -> None:
    def looped(x: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=16)[0].sum()

    assert 16 + 2 <= memory(looped, X).peak / X.nbytes <= 16 + 4


def test_a_branch_costs_its_dearest_side() -> None:
    def branching(x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda v: v + 1.0, lambda v: jnp.outer(v, v).sum(1), x)

    assert memory(branching, X, mode="evaluate").peak >= X.size * X.nbytes


def test_shapes_are_enough_and_nothing_is_run() -> None:
    def huge(x: Any) -> Any:
        return jnp.sum(jnp.exp(x @ x))

    shape = jax.ShapeDtypeStruct((100_000, 100_000), jnp.float32)
    assert memory(huge, shape, mode="evaluate").peak == 2 * 4 * 10**10


def test_the_argument_can_be_chosen_and_others_may_be_integers() -> None:
    def loss(labels: Any, w: Any, x: Any) -> Any:
        return jnp.sum(jax.nn.log_softmax(x @ w)[jnp.arange(3), labels])

    args = (np.array([0, 1, 0]), np.ones((4, 2), np.float32), np.ones((3, 4), np.float32))
    assert memory(loss, *args, argnums=1).peak > 0
    assert memory(loss, *args, argnums=(1, 2)).peak > memory(loss, *args, argnums=1).peak
    with pytest.raises(ArgumentError, match="labels has dtype int"):
        memory(loss, *args)
    with pytest.raises(ArgumentError, match="called with 3 arguments"):
        memory(loss, *args, argnums=3)


def test_several_results_and_integer_results_are_fine() -> None:
    timeline = memory(lambda x: {"a": jnp.sin(x), "n": jnp.argmax(x)}, X)
    assert timeline.peak >= 3 * X.nbytes


def test_an_empty_program_has_an_empty_timeline() -> None:
    returned, constant = memory(lambda x: x, X, mode="evaluate"), memory(lambda x: 3.0, X, mode="evaluate")
    assert (returned.steps, returned.peak) == ((), X.nbytes)
    assert (constant.steps, constant.peak) == ((), 0)
    ET.fromstring(constant.to_svg())


def test_an_unknown_mode_is_named_with_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match='mode must be "evaluate", "forward" or "reverse"'):
        memory(sines(2), X, mode="backward")


def test_a_loop_without_a_reverse_rule_points_to_the_forward_mode() -> None:
    def halving(x: Any) -> Any:
        return lax.while_loop(lambda v: v.sum() > 1, lambda v: v / 2, x)

    with pytest.raises(CapabilityError, match=r'memory\(mode="reverse"\)(.|\n)*mode="forward"'):
        memory(halving, X)
    assert memory(halving, X, mode="forward").peak >= 4 * X.nbytes


def test_peak_bytes_is_the_peak_of_evaluation() -> None:
    assert peak_bytes(sines(3), X) == 2 * X.nbytes


def test_the_compiled_program_often_needs_less() -> None:
    timeline = memory(sines(16), X)
    assert 2 * X.nbytes <= timeline.compiled_peak < timeline.peak


def test_the_picture_is_valid_and_says_the_peak(tmp_path: Path) -> None:
    plain, other = memory(sines(16), X), memory(sines(4), X)
    picture = plain.to_svg(tmp_path / "memory.svg", compare={"four steps": other})
    assert (tmp_path / "memory.svg").read_text(encoding="utf-8") == picture
    shown = " ".join(node.text or "" for node in ET.fromstring(picture).iter())
    assert "peak 70.3 KiB at step 32 of 50 (cos, test_timeline.py:" in shown
    assert "residual: 16 × cos test_timeline.py:" in shown
    assert "four steps: peak 23.4 KiB" in shown
    assert "compiled program: " in shown
    assert picture == plain.to_svg(compare={"four steps": other})


def test_a_long_timeline_makes_a_small_picture_that_keeps_the_peak() -> None:
    timeline = memory(sines(1500), X, mode="reverse")
    picture = timeline.to_svg(compiled=False)
    assert len(timeline.steps) > 4500
    assert len(picture) < 120_000
    assert "peak 5.73 MiB" in picture
    assert "compiled program:" not in picture


def test_the_picture_as_data_has_a_curve_per_role() -> None:
    data = memory(sines(4), X).picture()
    assert set(data.series) == {"primal", "residual", "adjoint", "all"}
    assert data.series["all"][1].max() == 6 * X.nbytes
