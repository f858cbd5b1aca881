"""The planner: which mode, how many products at a time, why, and what happens when memory is short."""

import json
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.derive import memory_budget
from chainrule.derive.dense import planning, preparation
from chainrule.derive.dense.planning import Trial
from tests.derive.dense.functions import point
from tests.derive.dense.test_strategies import close


def wide(m: int) -> Callable[[Any], Any]:
    return lambda x: jnp.sin(jnp.arange(1.0, m + 1) * x.sum()) * x[0]


def network(n: int, m: int) -> Callable[[Any], Any]:
    rng = np.random.default_rng(0)
    inner, outer = rng.standard_normal((n, 16)) / n**0.5, rng.standard_normal((16, m)) / 4
    return lambda x: jnp.tanh(jnp.tanh(x @ inner) @ outer)


def compiled_bytes(function: Callable[..., Any], *args: Any) -> int:
    memory = jax.jit(function).lower(*args).compile().memory_analysis()
    return int(memory.temp_size_in_bytes + memory.output_size_in_bytes)


def test_few_inputs_go_forward_and_few_outputs_in_reverse_with_reasons() -> None:
    J = cr.derive.jacobian(wide(500))
    J(jnp.ones(3))
    assert J.report.mode == "forward"
    assert "3 inputs, 500 outputs" in J.report.reason
    assert J.report.flops["forward"] * 10 < J.report.flops["reverse"]
    J = cr.derive.jacobian(lambda x: jnp.sin(x).sum() ** 2)
    J(jnp.ones(500))
    assert J.report.mode == "reverse"
    assert "500 inputs, 1 outputs" in J.report.reason
    assert J.report.flops["reverse"] * 10 < J.report.flops["forward"]


def test_the_choice_depends_on_the_function_and_not_only_on_its_shape() -> None:
    f = lambda x: jnp.roll(x, 1)[:5] * x[:5]  # noqa: E731
    square = cr.derive.jacobian(f).plan(jnp.ones(5))
    assert square.mode == "forward"
    assert "within 20 %" in square.reason


def test_a_mode_that_was_asked_for_is_taken() -> None:
    for mode in ("forward", "reverse"):
        report = cr.derive.jacobian(wide(20), mode).plan(jnp.ones(3))
        assert (report.mode, report.reason) == (mode, "asked for")
    report = cr.derive.hessian(lambda x: (x**3).sum(), "reverse-over-reverse").plan(jnp.ones(3))
    assert (report.mode, report.reason) == ("reverse-over-reverse", "asked for")


def test_a_hessian_takes_the_strategy_with_fewest_operations() -> None:
    report = cr.derive.hessian(network(64, 1)).plan(jnp.ones(64))
    assert report.mode == "forward-over-reverse"
    assert report.mode == min(
        report.flops, key=lambda name: report.flops[name] * (0.9 if name == report.mode else 1)
    )
    assert report.products == 64


def test_an_output_larger_than_the_budget_is_refused_before_anything_is_allocated() -> None:
    J = cr.derive.jacobian(lambda x: jnp.sin(x), memory="1MiB")
    with pytest.raises(cr.derive.MemoryBudgetError, match="128 000 000 bytes") as caught:
        J(jnp.ones(4000))
    message = str(caught.value)
    for remedy in ("1 048 576", "derive.sparse.jacobian", "derive.jvp / vjp", "jacobian_blocks", "memory="):
        assert remedy in message
    assert not hasattr(J, "report")
    with pytest.raises(cr.derive.MemoryBudgetError, match="3 200 000 000 bytes") as caught:
        cr.derive.hessian(lambda x: x.sum() ** 2, memory="1GB")(jnp.ones(20_000))
    assert "derive.hvp" in str(caught.value)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("kilobytes", [500, pytest.param(600, marks=pytest.mark.slow), 800, 2000])
def test_a_chunked_jacobian_stays_within_its_budget(mode: str, kilobytes: int) -> None:
    n, m = 240, 250
    f, x = network(n, m), point(n)
    J = cr.derive.jacobian(f, mode, memory=f"{kilobytes}kB")
    report = J.plan(x)
    assert report.output_bytes == 8 * n * m
    assert report.peak_bytes is not None
    assert report.peak_bytes <= report.budget_bytes == 1000 * kilobytes
    assert compiled_bytes(J, x) <= 1000 * kilobytes
    assert not report.notes
    if kilobytes == 2000:
        assert report.chunk == report.products
    else:
        assert report.chunk < report.products
    close(J(x), jax.jit(jax.jacfwd(f))(x))


def test_more_memory_means_larger_chunks() -> None:
    x = point(200)
    chunks = [
        cr.derive.jacobian(network(200, 200), "forward", memory=size).plan(x).chunk
        for size in (330_000, 400_000, 500_000)
    ]
    assert chunks == sorted(set(chunks))


def test_a_chunked_hessian_stays_within_its_budget() -> None:
    f, x = lambda x: network(100, 20)(x).sum(), point(100)
    for strategy in cr.derive.STRATEGIES[1:]:
        H = cr.derive.hessian(f, strategy, memory="90kB")
        report = H.plan(x)
        assert report.chunk < report.products
        assert report.peak_bytes is not None
        assert report.peak_bytes <= 90_000
        assert compiled_bytes(H, x) <= 90_000


def test_reverse_mode_gives_way_to_forward_mode_where_its_trace_does_not_fit() -> None:
    def f(x: Any) -> Any:
        return jax.lax.scan(lambda h, _: (jnp.sin(h) + h, None), x, None, length=300)[0].sum()

    x = jnp.ones(100)
    roomy, tight = cr.derive.jacobian(f), cr.derive.jacobian(f, memory="20kB")
    assert roomy.plan(x).mode == "reverse"
    report = tight.plan(x)
    assert report.mode == "forward"
    assert 'reverse would not fit the memory budget (derive.checkpoint(f, "binomial") would)' in report.reason
    close(tight(x), roomy(x))
    saving = cr.derive.jacobian(cr.derive.checkpoint(f, "binomial"), "reverse", memory="20kB")
    report = saving.plan(x)
    assert report.peak_bytes is not None
    assert report.peak_bytes <= 20_000
    close(saving(x), roomy(x))


def test_what_does_not_fit_at_all_is_run_one_product_at_a_time_and_noted() -> None:
    def f(x: Any) -> Any:
        return jnp.stack([jnp.sin(x.sum() * jnp.arange(2000.0)).sum()] * 3)

    J = cr.derive.jacobian(lambda x: f(jnp.sin(x)), "reverse", memory="500B")
    report = J.plan(jnp.ones(3))
    assert report.chunk == 1
    assert 'exceed the budget; derive.checkpoint(f, "binomial") does not take less' in report.notes[0]


def test_given_chunks_are_evened_out() -> None:
    report = cr.derive.jacobian(network(100, 100), "forward", chunk=99).plan(point(100))
    assert report.chunk == 50
    assert cr.derive.jacobian(network(100, 100), "forward", chunk=1000).plan(point(100)).chunk == 100


@pytest.mark.parametrize(("forward", "reverse", "winner"), [(1.0, 3.0, "forward"), (3.0, 1.0, "reverse")])
def test_modes_with_similar_operations_are_timed(
    monkeypatch: pytest.MonkeyPatch, forward: float, reverse: float, winner: str
) -> None:
    monkeypatch.setattr(Trial, "race", lambda self, entrants: [forward, reverse])
    f, x = network(80, 80), point(80)
    J = cr.derive.jacobian(f)
    report = J.plan(x)
    assert report.mode == winner
    assert report.reason == f"measured forward {1e3 * forward:.3g} ms, reverse {1e3 * reverse:.3g} ms"
    close(J(x), jax.jit(jax.jacfwd(f))(x))


def test_a_dead_heat_goes_to_forward_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "race", lambda self, entrants: [1.02, 1.0])
    assert cr.derive.jacobian(network(80, 80)).plan(point(80)).mode == "forward"


def test_the_stopwatch_is_used_only_where_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    raced = []

    def race(self: Trial, entrants: Sequence[tuple[str, int]]) -> list[float]:
        raced.append(list(entrants))
        return [1.0] * len(entrants)

    monkeypatch.setattr(Trial, "race", race)
    x = point(80)
    cr.derive.jacobian(network(80, 2)).plan(x)  # clear from the operations
    cr.derive.jacobian(lambda x: x**2).plan(point(4))  # too small to matter
    cr.derive.jacobian(network(80, 80), measure=False).plan(x)
    cr.derive.jacobian(network(80, 80), "reverse").plan(x)
    jax.jit(cr.derive.jacobian(network(80, 80))).lower(x)  # no numbers inside a trace
    f = network(80, 80)
    cr.derive.jacobian(lambda x: jax.debug.callback(print, 0) or f(x)).plan(x)  # somebody would see it run
    cr.derive.hessian(lambda x: network(80, 1)(x)[0]).plan(x)
    assert raced == []
    cr.derive.jacobian(network(80, 2), measure=True).plan(x)
    cr.derive.jacobian(network(80, 80)).plan(x)
    cr.derive.hessian(lambda x: network(80, 1)(x)[0], measure=True).plan(x)
    assert raced == [
        [("reverse", 2), ("forward", 80)],
        [("forward", 80), ("reverse", 80)],
        [("forward-over-reverse", 80), ("reverse-over-forward", 80)],
    ]


def stencil(x: Any) -> Any:
    """Needs much scratch memory when all products are run at once."""
    return jnp.sin(jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1) + x**3)


@pytest.mark.parametrize(("whole", "batches"), [(2.0, 1.0), (1.0, 2.0)])
def test_a_batch_that_fits_the_cache_is_tried_where_memory_is_far_larger(
    monkeypatch: pytest.MonkeyPatch, whole: float, batches: float
) -> None:
    raced = []

    def race(self: Trial, entrants: Sequence[tuple[str, int]]) -> list[float]:
        raced.append(list(entrants))
        return [whole, batches]

    monkeypatch.setattr(Trial, "race", race)
    x = point(600)
    J = cr.derive.jacobian(stencil, "forward")
    report = J.plan(x)
    ((_, (mode, small)),) = raced
    assert mode == "forward"
    assert small < 300
    assert report.chunk == (small if batches < whole else 600)
    assert report.reason == (
        f"asked for; measured forward {1e3 * whole:.3g} ms, forward in batches of {small} {1e3 * batches:.3g} ms"
    )
    close(J(x), jax.jit(jax.jacfwd(stencil))(x))
    assert cr.derive.jacobian(stencil, "forward", measure=False).plan(x).chunk == 600
    assert len(raced) == 1


def test_a_race_runs_every_program_and_returns_its_time() -> None:
    runs = []

    def program(name: str, chunk: int) -> planning.Program:
        return lambda *args: runs.append((name, chunk))

    seconds = Trial(program, (), "", False, program).race([("forward", 3), ("reverse", 5)])
    assert len(seconds) == 2
    assert all(0 <= s < 60 for s in seconds)
    assert runs[:4] == [("forward", 3), ("reverse", 5)] * 2


def exhausted_at(chunk: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Programs of that chunk run out of memory; returns the chunks that were run."""
    made, run = preparation._Programs.program, []

    def program(self: Any, mode: str, size: int) -> planning.Program:
        real = made(self, mode, size)

        def wrapped(*args: Any) -> Any:
            run.append(size)
            if size == chunk:
                raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.")
            return real(*args)

        wrapped.lower = real.lower  # type: ignore[attr-defined]
        return wrapped

    monkeypatch.setattr(preparation._Programs, "program", program)
    return run


def test_a_device_that_runs_out_of_memory_gets_half_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = exhausted_at(10, monkeypatch)
    f, x = network(10, 12), point(10)
    J = cr.derive.jacobian(f, "forward")
    with pytest.warns(RuntimeWarning, match="jacobian: out of memory at chunk 10: continued at 5"):
        close(J(x), jax.jit(jax.jacfwd(f))(x))
    assert J.report.chunk == 5
    assert "out of memory at chunk 10" in str(J.report)
    J(x)
    assert chunks == [10, 5, 5]


def test_running_out_of_memory_later_is_survived_too(monkeypatch: pytest.MonkeyPatch) -> None:
    f, x = network(10, 12), point(10)
    chunks = exhausted_at(10, monkeypatch)
    J = cr.derive.jacobian(f, "forward")
    J.plan(x)
    with pytest.warns(RuntimeWarning, match="continued at 5"):
        J(x)
    assert chunks == [10, 5]


def test_running_out_of_memory_one_product_at_a_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    exhausted_at(1, monkeypatch)
    for chunk in (1, 2):
        J = cr.derive.jacobian(network(4, 12), "forward", chunk=chunk)
        if chunk == 2:
            exhausted_at(2, monkeypatch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
                J(point(4))


def test_other_failures_of_the_device_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    made = preparation._Programs.program

    def program(self: Any, mode: str, size: int) -> planning.Program:
        def broken(*args: Any) -> Any:
            raise jax.errors.JaxRuntimeError("INTERNAL: broken")

        broken.lower = made(self, mode, size).lower  # type: ignore[attr-defined]
        return broken

    monkeypatch.setattr(preparation._Programs, "program", program)
    J = cr.derive.jacobian(network(4, 3), "forward")
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
            J(point(4))


def test_a_known_kind_of_input_is_neither_traced_nor_planned_again() -> None:
    traces = []

    def f(x: Any) -> Any:
        traces.append(1)
        return jnp.sin(x) * x.sum()

    J = cr.derive.jacobian(f)
    J(jnp.ones(3))
    seen = len(traces)
    report = J.report
    J(jnp.zeros(3))
    assert len(traces) == seen
    assert J.report is report
    J(jnp.ones(4))
    assert len(traces) > seen
    assert J.report.inputs == 4
    seen = len(traces)
    for size in (3, 4, 3):
        assert J(jnp.ones(size)).shape == (size, size)
        assert J.report.inputs == size
    assert len(traces) == seen


def test_every_kind_of_input_has_its_own_plan() -> None:
    J = cr.derive.jacobian(lambda x: jnp.outer(x["a"], x["a"])[0] if "a" in x else jnp.sin(x["b"]))
    close(J({"a": np.ones(2)})["a"], np.array([[2.0, 0.0], [1.0, 1.0]]))
    close(J({"b": np.ones(2)})["b"], np.diag(np.cos(np.ones(2))))
    with jax.enable_x64(False):
        assert J({"b": np.ones(2)})["b"].dtype == jnp.float32
    assert J({"b": np.ones(2)})["b"].dtype == jnp.float64
    many = cr.derive.jacobian(lambda x: jnp.sin(jnp.arange(20.0) * x.sum()))
    for size, mode in ((2, "forward"), (500, "reverse"), (2, "forward")):
        many(jnp.ones(size))
        assert (many.report.inputs, many.report.mode) == (size, mode)


def test_a_plan_is_what_the_call_does() -> None:
    J = cr.derive.jacobian(network(5, 6))
    x = point(5)
    planned = J.plan(x)
    J(x)
    assert J.report == planned
    assert J.plan(x) is planned


def test_the_program_that_runs_is_one_that_planning_compiled() -> None:
    lowered: list[str] = []

    def listen(event: str, duration: float, **rest: Any) -> None:
        if event == "/jax/core/compile/jaxpr_to_mlir_module_duration":
            lowered.append(event)

    J = cr.derive.jacobian(network(5, 6))
    x = jnp.asarray(point(5))
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        J.plan(x)
        planned = len(lowered)
        J(x)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len(lowered) == planned
    assert planned >= 2  # both modes were looked at


def test_a_report_reads_well_and_becomes_json() -> None:
    J = cr.derive.jacobian(wide(500), memory="1GiB")
    J(jnp.ones(3))
    text = str(J.report)
    assert text.startswith("jacobian of 3 inputs and 500 outputs\n  mode      forward: 3 inputs")
    assert "products  3 in batches of 3" in text
    assert "budget 1 GiB" in text
    plain = json.loads(json.dumps(J.report.to_json()))
    assert plain["mode"] == "forward"
    assert plain["budget_bytes"] == 2**30
    assert set(plain["seconds"]) == {"plan", "first call"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2GiB", 2 << 30), ("1.5 kB", 1500), ("10MB", 10**7), ("3k", 3000), ("7", 7), (" 1 MiB ", 1 << 20),
        (".5GB", 5 * 10**8), ("1tib", 1 << 40), (12345, 12345),
    ],
)  # fmt: skip
def test_budgets_are_read_as_people_write_them(text: str | int, expected: int) -> None:
    assert memory_budget.parse("jacobian", text) == expected


@pytest.mark.parametrize(
    "text", ["lots", "", "1.2.3GB", "-1GB", "2 apples", "0", "0.1B", 0, -5, "GiB", "1e9"]
)
def test_a_budget_that_makes_no_sense_is_refused_at_once(text: str | int) -> None:
    with pytest.raises(ArgumentError, match=r"jacobian\(memory=.*\): memory is a positive number of bytes"):
        cr.derive.jacobian(lambda x: x, memory=text)


def test_the_default_budget_is_a_quarter_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory_budget.free_memory() > 1 << 20
    monkeypatch.setattr(memory_budget, "free_memory", lambda: 1000)
    assert memory_budget.parse("jacobian", None) == 250
    with pytest.raises(cr.derive.MemoryBudgetError, match="the budget is 250 bytes"):
        cr.derive.jacobian(lambda x: x)(jnp.ones(10))
