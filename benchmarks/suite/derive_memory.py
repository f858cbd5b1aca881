"""Checkpointing: bytes by policy, by the model, the compiler and resident, and what recomputing costs.

The function is 64 steps of `tanh(s @ W)` with a state of 7.7 MB: as a `Repeat`, as a user's function with its own scan,
and (16 steps) as a chain of stages; the peer is the scan of scans one writes by hand with `jax.checkpoint`. Each row of
bytes is from a process of its own. Times are of gradients at a smaller size, everybody taking turns.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.harness import Contestant, Growth, Local, Options, Prepared, Report, measure
from benchmarks.workers import memory_forms as forms
from benchmarks.workers.protocol import steady

JAX = "nested scan of jax"
SMALL = (2_000, forms.SHAPE[1])
LENGTHS = (16, 64, 256, 1024)
ROWS = (
    *((form, policy) for form in ("repeat", "own loop", "chain") for policy in ("none", "sqrt", "binomial")),
    ("repeat", "plan"),
    (JAX, "none"),
)
LIMIT = 1.2
"""How many times the model compiled and resident bytes may be."""


def run(options: Options) -> Report:
    """Measure everything."""
    peers = options.chosen([JAX])
    cases, versions = [], {}
    for policy in ("sqrt", "binomial", "none"):
        contestants: list[Contestant] = [_local(f"chainrule, {policy}", forms.function("repeat", policy))]
        contestants += [_local(peer, forms.nested) for peer in peers]
        case, found = measure(
            f"gradient of {forms.STEPS} steps, {policy}",
            contestants,
            rounds=options.rounds,
            tolerance=1e-4,
            watch=options.watch,
        )
        cases.append(case)
        versions.update(found)
    rows = {row: _bytes(*row) for row in ROWS if row[0] != JAX or peers}
    worst = max(found[kind] / found["model"] for found in rows.values() for kind in ("compiled", "resident"))
    notes = [
        *(_line(*row, found) for row, found in rows.items()),
        f"compiled or resident bytes are at most {worst:.2f} times the model's (limit {LIMIT})",
    ]
    return Report(tuple(cases), (_compiling(),), tuple(notes), versions)


def _local(name: str, f: Callable[[Any], Any]) -> Local:
    gradient = forms.gradient(f)
    state = jnp.linspace(-1.0, 1.0, SMALL[0] * SMALL[1], dtype=jnp.float32).reshape(SMALL)

    def prepare() -> Prepared:
        began = time.perf_counter()
        result = jax.block_until_ready(gradient(state))
        seconds = time.perf_counter() - began
        return Prepared([float(result[row, row % SMALL[1]]) for row in range(0, SMALL[0], 97)], seconds)

    def work(times: int) -> None:
        for _ in range(times):
            jax.block_until_ready(gradient(state))

    return Local(name, prepare, lambda: steady(work, piece=1))


def _bytes(form: str, policy: str) -> dict[str, float]:
    command = [sys.executable, "-m", forms.__name__, form, policy]
    found: dict[str, float] = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    return found


def _line(form: str, policy: str, found: dict[str, float]) -> str:
    label = f"plan within {forms.BUDGET}" if policy == "plan" else policy
    kinds = ", ".join(
        f"{kind} {found[kind] / 1e6:,.0f} ({found[kind] / found['model']:.2f})"
        for kind in ("compiled", "resident")
    )
    return f"{form}, {label}: model {found['model'] / 1e6:,.0f} MB, {kinds}, compiled in {found['seconds']:.2f} s"


def _compiling() -> Growth:
    """How long a binomial schedule takes to trace and compile, by the number of steps: it should not matter."""
    seconds = []
    for length in LENGTHS:
        gradient = forms.gradient(forms.function("repeat", "binomial", length))
        began = time.perf_counter()
        gradient.lower(jax.ShapeDtypeStruct(SMALL, jnp.float32)).compile()
        seconds.append(time.perf_counter() - began)
    return Growth(
        "seconds to compile a binomial schedule",
        "steps",
        tuple(map(float, LENGTHS)),
        tuple(seconds),
        (1.0,) * len(LENGTHS),
    )
