"""Checkpointing as it is compiled: memory by the compiler's account, programs of fixed length, the same derivatives."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.derive.checkpointing import Repeat, checkpoint, plan
from chainrule.derive.memory_budget import MemoryBudgetError
from chainrule.derive.memory_timeline import memory

STATE = jax.ShapeDtypeStruct((500, 64), jnp.float32)
BYTES = 500 * 64 * 4
WEIGHT = np.eye(64, dtype=np.float32) * np.float32(0.9)


def step(state: Any, _: Any = None) -> Any:
    return jnp.tanh(state @ WEIGHT) * jnp.sin(state)


def own_loop(state: Any) -> Any:
    """A user's function with a loop of its own, behind a `jit`."""
    looped = jax.jit(lambda s: jax.lax.scan(lambda c, _: (step(c), None), s, None, length=64)[0])
    return looped(2 * state)


FORMS = {"repeat": Repeat(step, 64), "own loop": own_loop, "chain": [step] * 16}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("policy", ["sqrt", "binomial"])
def test_the_compiled_gradient_needs_what_the_model_says(form: str, policy: str) -> None:
    run = checkpoint(FORMS[form], policy)
    timeline = memory(lambda s: run(s).sum(), STATE)
    assert timeline.compiled_peak <= 1.1 * timeline.peak
    everything = 16 if form == "chain" else 64
    assert timeline.compiled_peak < {"sqrt": 7 * everything**0.5 + 8, "binomial": 16}[policy] * BYTES


def test_computing_everything_again_layer_by_layer_saves_memory_outside_of_loops() -> None:
    again = checkpoint(lambda s: step(step(step(s))), "nothing")

    def layers(f: Any, s: Any) -> Any:
        for _ in range(6):
            s = f(s)
        return s.sum()

    plain, kept = (memory(lambda s, f=f: layers(f, s), STATE) for f in (lambda s: step(step(step(s))), again))
    assert kept.compiled_peak < 0.4 * plain.compiled_peak
    assert kept.compiled_peak <= 1.1 * kept.peak


@pytest.mark.parametrize("policy", ["sqrt", "binomial"])
def test_programs_of_loops_are_as_long_for_many_steps_as_for_few(policy: str) -> None:
    def size(length: int) -> int:
        run = checkpoint(Repeat(step, length), policy)
        return len(str(jax.make_jaxpr(jax.grad(lambda s: run(s).sum()))(STATE)).splitlines())

    assert size(2500) == size(100)


def test_a_plan_promises_what_the_compiler_confirms() -> None:
    found = plan(Repeat(step, 12), STATE, memory=20 * BYTES)
    assert found.chosen.compiled is not None
    assert found.chosen.compiled <= found.budget
    run = found.apply()
    gradient = jax.jit(jax.grad(lambda s: run(s).sum())).lower(STATE).compile().memory_analysis()
    needed = gradient.temp_size_in_bytes + gradient.argument_size_in_bytes + gradient.output_size_in_bytes
    assert needed <= found.budget
    assert found.chosen.label in found.reason


def test_a_plan_passes_over_what_compiles_to_more_than_the_model_says(monkeypatch: Any) -> None:
    from chainrule.derive.memory_timeline import Timeline

    first: list[Any] = []

    def swollen(timeline: Any) -> int:
        first.append(timeline)
        return 10**9 if timeline is first[0] else int(timeline.peak)

    monkeypatch.setattr(Timeline, "compiled_peak", property(swollen))
    found = plan([jnp.sin] * 9, STATE, memory=9 * BYTES)
    assert len(first) == 2
    assert "compiles to 954 MiB" in found.reason
    monkeypatch.setattr(Timeline, "compiled_peak", 10**9)
    with pytest.raises(MemoryBudgetError, match=r"the least is"):
        plan([jnp.sin] * 2, STATE, memory=10 * BYTES)


# ---------------------------------------------------------------------- derivatives


def everything(weight: Any, x: Any, rows: Any, length: int, reverse: bool, options: Any) -> Any:
    """A loop with numbers, counters and random keys in its state, slices in and out, and a closed-over weight."""

    def f(weight: Any, x: Any, rows: Any) -> Any:
        def body(state: Any, row: Any) -> Any:
            key, now = jax.random.split(state["key"])
            noise = 0.1 * jax.random.normal(now, state["x"].shape)
            moved = jnp.tanh(state["x"] @ weight) + row["a"] + noise * state["steps"] + state["bias"]
            after = {"x": moved, "steps": state["steps"] + 1, "key": key, "bias": state["bias"]}
            return after, {"seen": jnp.sin(moved), "count": state["steps"] * row["n"], "none": None}

        start = {"x": x, "steps": 0, "key": jax.random.key(3), "bias": jnp.ones(3)}
        last, out = jax.lax.scan(body, start, rows, length=length, reverse=reverse)
        return last["x"], out["seen"], out["count"], last["steps"]

    moved, seen, count, steps = checkpoint(f, **options)(weight, x, rows)
    return (moved**2).sum() + (seen * jnp.arange(length)[:, None]).sum() + 0.01 * (count.sum() + steps)


def operands(length: int) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(0)
    rows = {"a": random.normal(size=(length, 3)).astype("f"), "n": np.arange(length)}
    return (0.5 * random.normal(size=(3, 3))).astype("f"), random.normal(size=3).astype("f"), rows


PLAIN: dict[str, Any] = {"policy": None}
FEW: dict[str, Any] = {"policy": "binomial", "snapshots": 3}
ONE: dict[str, Any] = {"policy": "binomial", "snapshots": 1}
BALANCED: dict[str, Any] = {"policy": "binomial"}
ROOT: dict[str, Any] = {"policy": "sqrt"}
FOURS: dict[str, Any] = {"policy": 4}


@pytest.mark.parametrize(
    ("length", "reverse", "ways"),
    [
        pytest.param(11, False, (ROOT, FOURS, FEW), id="forward"),
        pytest.param(9, True, (FOURS, BALANCED, ONE), id="reverse"),
        pytest.param(2, False, (ROOT, BALANCED), id="two steps"),
        pytest.param(0, True, (ROOT, BALANCED), id="no step"),
    ],
)
def test_loops_of_all_kinds_keep_their_gradients(length: int, reverse: bool, ways: Any) -> None:
    weight, x, rows = operands(length)

    def gradients(options: Any, *given: Any) -> Any:
        def loss(weight: Any, x: Any, a: Any) -> Any:
            return everything(weight, x, rows | {"a": a}, length, reverse, options)

        return jax.value_and_grad(loss, argnums=(0, 1, 2))(*given)

    wanted, *found = jax.jit(lambda *given: [gradients(options, *given) for options in (PLAIN, *ways)])(
        weight, x, rows["a"]
    )
    for one in found:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5), wanted, one)


TRANSFORMATIONS = {
    "forward": lambda f, x, v: jax.jvp(f, (x,), (v,))[1],
    "forward over reverse": lambda f, x, v: jax.jvp(jax.grad(f), (x,), (v,))[1],
    "reverse over forward": lambda f, x, v: jax.grad(lambda x: jax.jvp(f, (x,), (v,))[1])(x),
    "reverse over reverse": lambda f, x, v: jax.grad(lambda x: (jax.grad(f)(x) * v).sum())(x),
    "a batch of gradients": lambda f, x, v: jax.vmap(jax.grad(f))(jnp.stack([x, v])),
    "the gradient of a batch": lambda f, x, v: jax.grad(lambda x: jax.vmap(f)(jnp.stack([x, v + x])).sum())(
        x
    ),
}


def looped(x: Any) -> Any:
    weight, _, rows = operands(7)
    step = lambda c, a: (jnp.tanh(c @ weight) + a, c.sum())  # noqa: E731
    last, sums = jax.lax.scan(step, x, rows["a"])
    return (last**2).sum() + (sums**2).sum()


def written_out(x: Any) -> Any:
    weight, _, rows = operands(3)
    for a in rows["a"]:
        x = jnp.tanh(x @ weight) + a
    return (x**2).sum()


@pytest.mark.parametrize(
    ("f", "options"),
    [
        pytest.param(looped, ROOT, id="loop in segments"),
        pytest.param(looped, FEW, id="loop with snapshots"),
        pytest.param(written_out, FEW, id="operations with snapshots"),
        pytest.param(written_out, {"policy": "dots"}, id="operations"),
    ],
)
def test_every_mode_order_and_batch_of_them_survives(f: Any, options: Any) -> None:
    _, x, _ = operands(1)
    kept = checkpoint(f, **options)
    one, other = jax.jit(
        lambda x, v: [{name: way(g, x, v) for name, way in TRANSFORMATIONS.items()} for g in (kept, f)]
    )(x, x[::-1])
    for name in TRANSFORMATIONS:
        np.testing.assert_allclose(one[name], other[name], rtol=2e-4, atol=1e-5, err_msg=name)


def test_outside_of_a_compiled_program_the_gradient_is_the_same() -> None:
    _, x, _ = operands(1)
    wanted = jax.jit(jax.grad(looped))(x)
    np.testing.assert_allclose(jax.grad(checkpoint(looped, **FEW))(x), wanted, rtol=1e-5)


def test_repeats_within_repeats_and_printing_inside_work(capfd: Any) -> None:
    inner = checkpoint(Repeat(lambda s, i: jnp.sin(s) + 0.1 * i, 5), **FEW)
    outer = checkpoint(Repeat(lambda s, i: inner(s), 6), "sqrt")
    twice = Repeat(lambda s, i: Repeat(lambda t, j: jnp.sin(t) + 0.1 * j, 5).run(0, 5)(s), 6).run(0, 6)
    x = np.linspace(0.1, 1.0, 4, dtype="f")
    one, other = jax.jit(lambda x: [jax.grad(lambda x, f=f: f(x).sum())(x) for f in (outer, twice)])(x)
    np.testing.assert_allclose(one, other, rtol=1e-5)

    def speaks(s: Any) -> Any:
        jax.debug.print("here")
        return jnp.sin(s)

    for policy in ("sqrt", "binomial", "nothing"):
        found = jax.grad(lambda x, p=policy: checkpoint([speaks] * 4, p)(x).sum())(x)
        assert np.isfinite(found).all()
    jax.effects_barrier()
    assert "here" in capfd.readouterr().out


def test_a_weight_that_several_stages_share_has_one_gradient() -> None:
    weight, x, _ = operands(1)

    def loss(weight: Any, options: Any) -> Any:
        return checkpoint([lambda s: jnp.tanh(s @ weight)] * 6, **options)(x).sum()

    found = jax.jit(lambda w: [jax.grad(loss)(w, options) for options in (PLAIN, FEW, ROOT)])(weight)
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], rtol=1e-5, atol=1e-7)
