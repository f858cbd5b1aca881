"""Flows of tables beside zuko (PyTorch) and flowjax: held-out likelihood, training step, draws.

Masked autoregressive flows with affine and with spline layers, and couplings, five transforms with networks of three
(couplings: two) hidden layers of 64, are trained on three tables of scikit-learn by Adam on the same batches; of each,
the best by validation is judged on test rows. Times are those of a step of 64 rows and of 512 draws. Contestants need
not find the same flow, but ones whose costs of a typical row, the median, are far apart do not do the same work.
`--smoke` takes few steps on one table.
"""

import dataclasses
import time
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.harness import THREADS, Case, Contestant, Local, Options, Prepared, Report, against, measure
from benchmarks.peer import Peer
from benchmarks.workers import flow_problems as problems
from benchmarks.workers.protocol import steady
from chainrule import models
from chainrule.data import Batch, from_arrays
from chainrule.models.flow.flow_model import FlowModel, started

PEERS = ("zuko", "flowjax")
SMOKE = True
MODELS = {"maf": "maf", "spline": "spline-flow", "coupling": "realnvp"}
TARGET = 0.8


def run(options: Options) -> Report:
    """Every form on every table; times on the last table alone."""
    peers = options.chosen(PEERS)
    steps = 20 if options.smoke else problems.STEPS
    tables = problems.TABLES[-1:] if options.smoke else problems.TABLES
    cases: list[Case] = []
    versions: dict[str, str] = {}
    notes: list[str] = []
    for form in problems.FORMS:
        for table in tables:
            timed = ("step", "draw") if table == tables[-1] else ("step",)
            for task in timed:
                print(f"{form}, {table}, {task} ...", flush=True)
                given: dict[str, Any] = {"form": form, "table": table, "task": task, "steps": steps}
                theirs = [
                    Recorded(Peer(peer, "flow_peers", {"package": peer, "threads": THREADS, **given}))
                    for peer in peers
                ]
                ours = Recorded(_ours(**given))
                case, found = measure(
                    f"{form} of {table}, {'a step' if task == 'step' else f'{problems.DRAWN} draws'}",
                    [ours, *theirs],
                    rounds=options.rounds if table == tables[-1] else 1,
                    tolerance=0.5,
                    watch=options.watch,
                )
                versions.update(found)
                if table == tables[-1]:
                    cases.append(case)
                    notes += against(case, TARGET)
                if task == "step":
                    notes += _likelihoods(form, table, ours, theirs)
    return Report(tuple(cases), (), tuple(notes), versions)


@final
class Recorded(Contestant):
    """A contestant whose mean cost is kept, and whose median cost is what it is compared by."""

    def __init__(self, inner: Contestant) -> None:
        self.inner, self.name, self.found = inner, inner.name, float("nan")

    def prepare(self) -> Prepared:
        """The contestant's own."""
        made = self.inner.prepare()
        typical, self.found = made.result
        return dataclasses.replace(made, result=[typical])

    def turn(self) -> float:
        """The contestant's own."""
        return self.inner.turn()

    def processes(self) -> Any:
        """The contestant's own."""
        return self.inner.processes()

    def close(self) -> None:
        """The contestant's own."""
        self.inner.close()


def _built(form: str, rows: np.ndarray) -> FlowModel:
    more: dict[str, Any] = {"blocks": 1} if form != "coupling" else {"depth": problems.HIDDEN[form]}
    data = from_arrays(rows, kind="table")
    model = models.build(MODELS[form], data, layers=problems.LAYERS, width=problems.WIDTH, **more)
    assert isinstance(model, FlowModel)
    return started(model, data)


def _ours(form: str, table: str, task: str, steps: int) -> Contestant:
    train, val, test = problems.table(table)
    size = train.shape[1]
    optimizer = optax.adam(problems.RATE)
    index = problems.batches(len(train), steps)
    held: dict[str, Any] = {}

    def prepare() -> Prepared:
        model = _built(form, train)
        arrays, rest = eqx.partition(model, eqx.is_inexact_array)

        def cost(arrays: Any, rows: Any) -> Any:
            return eqx.combine(arrays, rest).loss(Batch(rows), jax.random.key(0))[0]

        @jax.jit
        def step(arrays: Any, state: Any, rows: Any) -> Any:
            slope = jax.grad(cost)(arrays, rows)
            updates, state = optimizer.update(slope, state, arrays)
            return optax.apply_updates(arrays, updates), state

        judge = jax.jit(cost)
        rows = jnp.asarray(train)
        began = time.perf_counter()
        state, best, kept = optimizer.init(arrays), np.inf, arrays
        for number, chosen in enumerate(index):
            arrays, state = step(arrays, state, rows[chosen])
            if number % problems.EVERY == 0 or number == steps - 1:
                found = float(judge(arrays, jnp.asarray(val)))
                if found < best:
                    best, kept = found, arrays
        seconds = time.perf_counter() - began
        held.update(step=step, arrays=arrays, state=state, rows=rows, flow=eqx.combine(kept, rest))
        rows_left = jnp.asarray(test)
        each = [float(judge(kept, rows_left[row : row + 1])) for row in range(len(test))]
        return Prepared(problems.judged(each, size), seconds)

    def train_on(count: int) -> None:
        arrays, state = held["arrays"], held["state"]
        for number in range(count):
            arrays, state = held["step"](arrays, state, held["rows"][index[number % steps]])
        held.update(arrays=jax.block_until_ready(arrays), state=state)

    def turn() -> float:
        if task == "draw":
            key = jax.random.key(0)
            draw = lambda: held["flow"].sample(key, problems.DRAWN).block_until_ready()  # noqa: E731
            return steady(lambda count: [draw() for _ in range(count)], 1)
        return steady(train_on, 4)

    return Local("chainrule", prepare, turn)


def _likelihoods(form: str, table: str, ours: Recorded, theirs: list[Recorded]) -> list[str]:
    nats = {one.name: one.found for one in (ours, *theirs)}
    return [
        f"{form} of {table}: {nats['chainrule']:.3f} nats, {name} {cost:.3f}, target not above: "
        f"{'met' if nats['chainrule'] <= cost else 'MISSED'}"
        for name, cost in nats.items()
        if name != "chainrule"
    ]
