"""zuko's and flowjax's side of the `flows` benchmark: a flow of a table, trained on the same rows by Adam."""

import copy
import time
from typing import Any

import flow_problems as problems
import numpy as np
from protocol import Ready, serve, steady


def prepare(package: str, form: str, table: str, task: str, steps: int, threads: int) -> Ready:
    make = {"zuko": _zuko, "flowjax": _flowjax}[package]
    return make(form, table, task, steps, threads)


def _zuko(form: str, table: str, task: str, steps: int, threads: int) -> Ready:
    import torch
    import zuko

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    train, val, test = (torch.from_numpy(rows) for rows in problems.table(table))
    size = train.shape[1]
    hidden = [problems.WIDTH] * problems.HIDDEN[form]
    sizes = {"transforms": problems.LAYERS, "hidden_features": hidden}
    flow = {
        "maf": lambda: zuko.flows.MAF(size, **sizes),
        "spline": lambda: zuko.flows.NSF(size, bins=8, **sizes),
        "coupling": lambda: zuko.flows.NICE(size, **sizes),
    }[form]()
    optimizer = torch.optim.Adam(flow.parameters(), lr=problems.RATE)

    def step(rows: Any) -> None:
        loss = -flow().log_prob(rows).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    began = time.perf_counter()
    index = problems.batches(len(train), steps)
    best, kept = np.inf, copy.deepcopy(flow.state_dict())
    for number, chosen in enumerate(index):
        step(train[chosen])
        if number % problems.EVERY == 0 or number == steps - 1:
            with torch.no_grad():
                cost = -flow().log_prob(val).mean().item()
            if cost < best:
                best, kept = cost, copy.deepcopy(flow.state_dict())
    seconds = time.perf_counter() - began
    flow.load_state_dict(kept)
    with torch.no_grad():
        each = (-flow().log_prob(test)).tolist()

    def draw(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                flow().sample((problems.DRAWN,))

    def turn() -> float:
        if task == "draw":
            return steady(draw, 1)
        return steady(lambda count: [step(train[index[n % steps]]) for n in range(count)], 4)

    versions = {"torch": torch.__version__, "zuko": zuko.__version__}
    return Ready(problems.judged(each, size), seconds, versions, turn)


def _flowjax(form: str, table: str, task: str, steps: int, threads: int) -> Ready:
    del threads  # XLA takes those it sees, as ours does
    from importlib.metadata import version

    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax
    import paramax
    from flowjax.bijections import Affine, RationalQuadraticSpline
    from flowjax.distributions import Normal
    from flowjax.flows import coupling_flow, masked_autoregressive_flow

    train, val, test = (jnp.asarray(rows) for rows in problems.table(table))
    size = train.shape[1]
    sizes = {"flow_layers": problems.LAYERS, "nn_width": problems.WIDTH, "nn_depth": problems.HIDDEN[form]}
    base, key = Normal(jnp.zeros(size)), jax.random.key(0)
    if form == "coupling":
        flow = coupling_flow(key, base_dist=base, transformer=Affine(), **sizes)
    else:
        spline = RationalQuadraticSpline(knots=8, interval=3)
        chosen = Affine() if form == "maf" else spline
        flow = masked_autoregressive_flow(key, base_dist=base, transformer=chosen, **sizes)
    trained = lambda leaf: isinstance(leaf, paramax.NonTrainable)  # noqa: E731
    arrays, rest = eqx.partition(flow, eqx.is_inexact_array, is_leaf=trained)
    optimizer = optax.adam(problems.RATE)

    def cost(arrays: Any, rows: Any) -> Any:
        return -paramax.unwrap(eqx.combine(arrays, rest)).log_prob(rows).mean()

    @jax.jit
    def step(arrays: Any, state: Any, rows: Any) -> Any:
        slope = jax.grad(cost)(arrays, rows)
        updates, state = optimizer.update(slope, state, arrays)
        return optax.apply_updates(arrays, updates), state

    judge = jax.jit(cost)
    began = time.perf_counter()
    index = problems.batches(len(train), steps)
    state, best, kept = optimizer.init(arrays), np.inf, arrays
    for number, chosen_rows in enumerate(index):
        arrays, state = step(arrays, state, train[chosen_rows])
        if number % problems.EVERY == 0 or number == steps - 1:
            found = float(judge(arrays, val))
            if found < best:
                best, kept = found, arrays
    seconds = time.perf_counter() - began
    each = [float(judge(kept, test[row : row + 1])) for row in range(len(test))]
    sampled = jax.jit(lambda arrays, k: eqx.combine(arrays, rest).sample(k, (problems.DRAWN,)))
    held = [arrays, state]

    def train_on(count: int) -> None:
        for number in range(count):
            held[0], held[1] = step(held[0], held[1], train[index[number % steps]])
        jax.block_until_ready(held[0])

    def turn() -> float:
        if task == "draw":
            return steady(lambda count: [sampled(kept, key).block_until_ready() for _ in range(count)], 1)
        return steady(train_on, 4)

    versions = {name: version(name) for name in ("jax", "flowjax")}
    return Ready(problems.judged(each, size), seconds, versions, turn)


if __name__ == "__main__":
    serve(prepare)
