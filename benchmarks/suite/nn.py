"""Training steps (forward, backward, Adam) of six networks: `chainrule.train.fit` against PyTorch and stock JAX.

Ours is what a user gets: the steady state of `fit`, many steps per call. PyTorch runs a bare loop, eagerly, with images
channels last, and compiled. `stock-jax` is the same network with XLA's own convolution, its gradients, its pooling and
its loop through time, in the usual loop over a compiled step (inside a loop on the device convolutions would be far
slower). Losses of the first ten steps must agree.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import equinox as eqx
import jax
import numpy as np
import optax

from benchmarks.harness import THREADS, Case, Contestant, Local, Options, Prepared, Report, measure
from benchmarks.networks import WORKLOADS, Network, Workload
from benchmarks.peer import Peer
from benchmarks.workers.protocol import steady
from benchmarks.workloads import first_losses, settled_steps, steady_seconds
from chainrule.data.batches import Batch, Batches
from chainrule.data.dataset import Data
from chainrule.models.protocol import HasState
from chainrule.nn import pooling
from chainrule.nn.convolution import stock

TORCH = {"torch": "eager", "torch-channels-last": "channels-last", "torch-compile": "compile"}
STOCK = "stock-jax"
RATES = {"sgd": 1e-2, "adam": 1e-4}
"""Small enough for rounding errors not to grow beyond the tolerance within the steps that are compared."""
CHECKED_STEPS = 10
NEVER = 10**9
CHOICES = tuple(WORKLOADS)


def run(options: Options) -> Report:
    """Measure every network, or one."""
    names = CHOICES if options.case is None else (options.case,)
    return compared([(name, "adam") for name in names], options, [STOCK, *TORCH])


def compared(pairs: Sequence[tuple[str, str]], options: Options, peers: Sequence[str]) -> Report:
    """Training steps of the named networks, each by the rule beside its name, against these peers."""
    chosen = options.chosen(list(peers))
    cases: list[Case] = []
    versions: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rule in pairs:
            workload = WORKLOADS[name]
            data, model = workload.data(), workload.model()
            file = Path(folder) / f"{name}.npz"
            write_work(file, model, data, workload.batch)
            contestants: list[Contestant] = [ours(workload, model, data, rule)]
            if STOCK in chosen:
                contestants.append(stock_jax(workload, model, data, rule))
            contestants += [
                Peer(
                    peer,
                    "torch_networks",
                    {
                        "file": str(file),
                        "network": name,
                        "form": TORCH[peer],
                        "optimizer": rule,
                        "lr": RATES[rule],
                        "threads": THREADS,
                        "check": CHECKED_STEPS,
                    },
                )
                for peer in chosen
                if peer in TORCH
            ]
            case, found = measure(
                f"{workload.label}, batch {workload.batch}, {rule}",
                contestants,
                rounds=options.rounds,
                tolerance=1e-3,
                watch=options.watch,
            )
            cases.append(case)
            versions |= found
    return Report(tuple(cases), versions=versions)


def ours(workload: Workload, model: Network, data: Data, rule: str) -> Contestant:
    """`fit` with evaluations and checkpoints out of the way."""
    settings = {
        "batch": workload.batch,
        "optimizer": {"name": rule, "lr": RATES[rule], "decay": 0.0},
        "schedule": {"name": "constant"},
        "eval_every": NEVER,
        "save_every": NEVER,
    }
    return Local(
        "chainrule",
        lambda: Prepared(*first_losses(model, data, CHECKED_STEPS, **settings)),
        lambda: steady_seconds(model, data, settled_steps(workload.operations), **settings),
    )


def stock_jax(workload: Workload, model: Network, data: Data, rule: str) -> Contestant:
    """A compiled step with XLA's own convolution, pooling and loop through time, called in a loop."""
    moves = {"sgd": optax.sgd, "adam": optax.adam}[rule](RATES[rule])
    is_parameter = _parameters(model)
    order = Batches(len(data.train), workload.batch, seed=0).indices(0, 256)
    resident = {name: jax.numpy.asarray(array) for name, array in data.train.arrays.items()}

    def objective(owned: object, rest: object, batch: Batch) -> tuple[jax.Array, object]:
        whole = eqx.combine(owned, rest)
        if isinstance(whole, HasState):
            loss, _, moved = whole.loss_and_state(batch, jax.random.key(0))
            return loss, eqx.filter(moved, is_parameter, inverse=True)
        return whole.loss(batch, jax.random.key(0))[0], rest

    def step(owned: object, rest: object, memory: object, rows: jax.Array) -> tuple[object, ...]:
        batch = data.train.gather(resident, rows)
        (loss, rest), grads = jax.value_and_grad(objective, has_aux=True)(owned, rest, batch)
        updates, memory = moves.update(grads, memory)
        return eqx.apply_updates(owned, updates), rest, memory, loss

    state: list[object] = []
    compiled = eqx.filter_jit(step, donate="none")

    def work(steps: int) -> None:
        for number in range(steps):
            *state[:], loss = compiled(*state, order[number % len(order)])
        jax.block_until_ready(loss)

    def prepare() -> Prepared:
        owned, rest = eqx.partition(model, is_parameter)
        state[:] = [owned, rest, moves.init(owned)]
        losses = []
        began = time.perf_counter()
        with stock_layers():
            *state[:], loss = compiled(*state, order[0])
        losses.append(float(loss))
        seconds = time.perf_counter() - began
        for rows in order[1:CHECKED_STEPS]:
            *state[:], loss = compiled(*state, rows)
            losses.append(float(loss))
        return Prepared(losses, seconds)

    return Local(STOCK, prepare, lambda: steady(work, 2))


@contextlib.contextmanager
def stock_layers() -> Iterator[None]:
    """What is traced in here uses XLA's own convolution, pooling and loop through time, and their gradients."""
    with (
        mock.patch(
            "chainrule.nn.convolution.functions.convolution",
            lambda x, w, g: stock.convolution(x, w, geometry=g),
        ),
        mock.patch.object(pooling._Window, "side_by_side", False),
        mock.patch("chainrule.nn.recurrent.primitives.available", return_value=False),
    ):
        yield


def _parameters(model: Network):  # type: ignore[no-untyped-def]
    state = {id(array) for array in (model.state() if isinstance(model, HasState) else ())}
    return jax.tree.map(lambda leaf: bool(eqx.is_inexact_array(leaf)) and id(leaf) not in state, model)


def write_work(file: Path, model: Network, data: Data, batch: int) -> None:
    """Data, order of the examples and initial weights, so that everybody starts from the same numbers."""
    arrays = data.train.arrays
    work = {"index": Batches(len(data.train), batch, seed=0).indices(0, 256)}
    if "tokens" in arrays:
        work["x"] = arrays["tokens"].reshape(len(data.train), -1)
    else:
        work |= {"x": np.asarray(arrays["x"]), "y": np.asarray(arrays["y"])}
    work |= {f"w{number}": np.asarray(array) for number, array in enumerate(model.weights())}
    np.savez(file, allow_pickle=False, **work)
