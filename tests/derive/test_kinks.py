"""Derivatives at kinks: functions of JAX programs have JAX's, dual numbers the mean of both sides."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import derive
from chainrule.core.errors import ArgumentError
from tests.tiers import tiers

GUIDE = Path(__file__).parents[2] / "docs" / "kinks.md"

KINKS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "abs": (jnp.abs, 1.0),
    "relu": (jax.nn.relu, 0.0),
    "maximum": (lambda x: jnp.maximum(x, 0.0), 0.5),
    "clip": (lambda x: jnp.clip(x, 0.0, 1.0), 0.5),
    "ties": (lambda x: jnp.max(jnp.stack([x, 2 * x, 3 * x])), 2.0),
    "where": (lambda x: jnp.where(x > 0, x, 0.0), 0.0),
    "floor": (jnp.floor, 0.0),
    "hypot": (lambda x: jnp.hypot(x, 0.0), 0.5),
}


@pytest.mark.parametrize("name", tiers(KINKS, slow=["clip", "where", "floor", "hypot"]))
def test_functions_of_jax_programs_agree_with_jax_and_each_other(name: str) -> None:
    f, expected = KINKS[name]
    routes = {
        "jax": jax.grad(f)(0.0),
        "gradient": derive.gradient(f)(0.0),
        "jvp": derive.jvp(f, 0.0, 1.0)[1],
        "vjp": derive.vjp(f, 0.0)[1](1.0),
        "tape": derive.tape(f, 0.0).gradient(),
        "program": derive.program(f, 0.0)(0.0),
        "lift": derive.lift(f)(derive.Dual(0.0, 1.0)).tangent,
    }
    assert {route: float(slope) for route, slope in routes.items()} == dict.fromkeys(routes, expected)


DUALS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "abs": (np.abs, 0.0),
    "maximum": (lambda x: np.maximum(x, 0.0), 0.5),
    "clip": (lambda x: np.clip(x, 0.0, 1.0), 0.5),
    "ties": (lambda x: np.max(np.stack([x, 2 * x, 3 * x])), 2.0),
    "where": (lambda x: np.where(x > 0, x, 0.0), 0.0),
    "floor": (np.floor, 0.0),
    "hypot": (lambda x: np.hypot(x, 0.0), 0.0),
}


@pytest.mark.parametrize("name", DUALS)
def test_dual_numbers_take_the_mean_of_both_sides(name: str) -> None:
    f, expected = DUALS[name]
    assert float(derive.derivative(f)(0.0)) == pytest.approx(expected)


def test_dual_numbers_refuse_vertical_tangents() -> None:
    for f in (np.sqrt, np.cbrt):
        with pytest.raises(ArgumentError, match="has no derivative here"):
            derive.derivative(f)(0.0)


def test_the_guide_prints_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```(python|text)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    program = tmp_path / "guide.py"
    program.write_text("\n".join(code for kind, code in blocks if kind == "python"), encoding="utf-8")
    runpy.run_path(str(program))
    assert capsys.readouterr().out == "".join(expected for kind, expected in blocks if kind == "text")
