"""Bytes of one gradient in a process of its own: `python -m benchmarks.workers.memory_forms FORM POLICY` prints JSON.

Bytes by the model, by the compiler, and resident: how much the process grew while the gradient was computed, with the
argument, which was there before. Linux only: the peak is what the kernel counted, reset just before.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.derive import Repeat, checkpoint, memory, plan

STEPS, STAGES = 64, 16
SHAPE = (30_000, 64)
"""7.7 MB."""
BUDGET = "250MB"
FORMS = ("repeat", "own loop", "chain", "nested scan of jax")
WEIGHT = np.asarray(np.eye(SHAPE[1]) * 0.9, dtype=np.float32)


def step(state: Any, number: Any = None) -> Any:
    """One step: a product with a matrix and a nonlinearity."""
    del number
    return jnp.tanh(state @ WEIGHT)


def own_loop(state: Any, length: int = STEPS) -> Any:
    """A function with its own loop."""
    return jax.lax.scan(lambda carry, _: (step(carry), None), state, None, length=length)[0]


def nested(state: Any) -> Any:
    """What one writes by hand: a scan of scans with the inner one recomputed."""
    side = int(STEPS**0.5)
    inner = jax.checkpoint(lambda carry: own_loop(carry, side), prevent_cse=False)
    return jax.lax.scan(lambda carry, _: (inner(carry), None), state, None, length=side)[0]


def function(form: str, policy: str, steps: int = STEPS) -> Callable[[Any], Any]:
    """The function of a form under a policy: "none", "plan", or one of `checkpoint`."""
    if form == "nested scan of jax":
        return nested
    made: Any = {"repeat": Repeat(step, steps), "own loop": own_loop, "chain": [step] * STAGES}[form]
    if policy == "plan":
        return plan(made, jax.ShapeDtypeStruct(SHAPE, jnp.float32), memory=BUDGET).apply()
    return checkpoint(made, None if policy == "none" else policy)


def gradient(f: Callable[[Any], Any]) -> Any:
    """The compiled gradient of the sum."""
    return jax.jit(jax.grad(lambda state: f(state).sum()))


def measured(form: str, policy: str) -> dict[str, float]:
    """Bytes by model, by the compiler, and resident; seconds to compile."""
    f = function(form, policy)
    timeline = memory(lambda state: f(state).sum(), jax.ShapeDtypeStruct(SHAPE, jnp.float32))
    state = jnp.ones(SHAPE, jnp.float32).block_until_ready()
    began = time.perf_counter()
    compiled = gradient(f).lower(state).compile()
    seconds = time.perf_counter() - began
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    compiled(state).block_until_ready()
    grown = _status("VmHWM") - before
    return {
        "model": timeline.peak,
        "compiled": timeline.compiled_peak,
        "resident": grown + state.nbytes,
        "seconds": seconds,
    }


def _status(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    print(json.dumps(measured(*sys.argv[1:])))
