"""Flows of tables beside zuko (PyTorch) and flowjax: held-out likelihood, training step, draws.

Masked autoregressive flows with affine and with spline layers, and couplings, five transforms with networks of three
(couplings: two) hidden layers of 64, are trained on three tables of scikit-learn by Adam on the same batches; of each,
the best by validation is judged on test rows, for five ways to cut the table, as few rows are left for a test and
outliers among them decide a mean. Times are those of a step of 64 rows and of 512 draws. Contestants need not find the
same flow, but ones whose costs of a typical row, the median, are far apart do not do the same work. `--smoke` takes few
steps on one table.
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
_ANY = 10.0
"""A tolerance that all finite numbers meet: after a few steps flows are where they began, and some as a Gaussian."""


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
                splits = problems.SPLITS if task == "step" and not options.smoke else 1
                given: dict[str, Any] = {"form": form, "table": table, "task": task, "steps": steps}
                given["splits"] = splits
                theirs = [
                    Recorded(Peer(peer, "flow_peers", {"package": peer, "threads": THREADS, **given}))
                    for peer in peers
                ]
                ours = Recorded(_ours(**given))
                case, found = measure(
                    f"{form} of {table}, {'a step' if task == 'step' else f'{problems.DRAWN} draws'}",
                    [ours, *theirs],
                    rounds=options.rounds if table == tables[-1] else 1,
                    tolerance=_ANY if options.smoke else 0.5,
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
    """A contestant whose mean cost of every split is kept, and whose median cost is what it is compared by."""

    def __init__(self, inner: Contestant) -> None:
        self.inner, self.name, self.found = inner, inner.name, np.empty(0)

    def prepare(self) -> Prepared:
        """The contestant's own."""
        made = self.inner.prepare()
        typical, *means = made.result
        self.found = np.asarray(means)
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


def _ours(form: str, table: str, task: str, steps: int, splits: int) -> Contestant:
    optimizer = optax.adam(problems.RATE)
    held: dict[str, Any] = {}

    def prepare() -> Prepared:
        train = problems.table(table)[0]
        rest = eqx.partition(_built(form, train), eqx.is_inexact_array)[1]
        index = problems.batches(len(train), steps)

        def cost(arrays: Any, rows: Any) -> Any:
            return eqx.combine(arrays, rest).loss(Batch(rows), jax.random.key(0))[0]

        @jax.jit
        def step(arrays: Any, state: Any, rows: Any) -> Any:
            slope = jax.grad(cost)(arrays, rows)
            updates, state = optimizer.update(slope, state, arrays)
            return optax.apply_updates(arrays, updates), state

        judge = jax.jit(cost)

        def trained(split: int) -> tuple[Any, Any, Any, Any, list[float]]:
            train, val, test = problems.table(table, split)
            arrays = eqx.filter(_built(form, train), eqx.is_inexact_array)
            state, rows, best, kept = optimizer.init(arrays), jnp.asarray(train), np.inf, arrays
            for number, chosen in enumerate(index):
                arrays, state = step(arrays, state, rows[chosen])
                if number % problems.EVERY == 0 or number == steps - 1:
                    found = float(judge(arrays, jnp.asarray(val)))
                    if found < best:
                        best, kept = found, arrays
            return arrays, state, rows, kept, [float(judge(kept, row[None])) for row in jnp.asarray(test)]

        began = time.perf_counter()
        arrays, state, rows, kept, each = trained(0)
        seconds = time.perf_counter() - began
        nats = [each, *(trained(split)[-1] for split in range(1, splits))]
        held.update(step=step, arrays=arrays, state=state, rows=rows, flow=eqx.combine(kept, rest))
        held.update(index=index)
        return Prepared(problems.judged(nats, train.shape[1]), seconds)

    def train_on(count: int) -> None:
        arrays, state = held["arrays"], held["state"]
        for number in range(count):
            arrays, state = held["step"](arrays, state, held["rows"][held["index"][number % steps]])
        held.update(arrays=jax.block_until_ready(arrays), state=state)

    def turn() -> float:
        if task == "draw":
            key = jax.random.key(0)
            draw = lambda: held["flow"].sample(key, problems.DRAWN).block_until_ready()  # noqa: E731
            return steady(lambda count: [draw() for _ in range(count)], 1)
        return steady(train_on, 4)

    return Local("chainrule", prepare, turn)


def _likelihoods(form: str, table: str, ours: Recorded, theirs: list[Recorded]) -> list[str]:
    return [_beside(f"{form} of {table}", ours.found, peer.name, peer.found) for peer in theirs]


def _beside(what: str, ours: np.ndarray, name: str, theirs: np.ndarray) -> str:
    """Both costs, and whether ours is above by more than its standard error over splits, which share their rows.

    >>> _beside("maf of wine", np.array([18.0, 20.0]), "zuko", np.array([19.0, 20.0]))
    'maf of wine: 19.00 nats, zuko 19.50, -0.50 ± 0.50 over 2 splits, target not above: met'
    """
    apart = ours - theirs
    said = f"{what}: {ours.mean():.2f} nats, {name} {theirs.mean():.2f}"
    verdict = "met" if apart.mean() <= 0 else "MISSED"
    if len(apart) < 2:
        return f"{said}, one split, target not above: {verdict}"
    error = float(apart.std(ddof=1) / np.sqrt(len(apart)))
    if 0 < apart.mean() <= error:
        verdict = "MISSED, by no more than its error"
    return f"{said}, {apart.mean():+.2f} ± {error:.2f} over {len(apart)} splits, target not above: {verdict}"
