"""zuko's and flowjax's side of the `flows` benchmark: a flow of a table, trained on the same rows by Adam."""

import copy
import time
from typing import Any

import flow_problems as problems
import numpy as np
from protocol import Ready, serve, steady


def prepare(package: str, form: str, table: str, task: str, steps: int, splits: int, threads: int) -> Ready:
    make = {"zuko": _zuko, "flowjax": _flowjax}[package]
    return make(form, table, task, steps, splits, threads)


def _zuko(form: str, table: str, task: str, steps: int, splits: int, threads: int) -> Ready:
    import torch
    import zuko

    torch.set_num_threads(threads)
    hidden = [problems.WIDTH] * problems.HIDDEN[form]
    sizes = {"transforms": problems.LAYERS, "hidden_features": hidden}

    def built(size: int) -> Any:
        torch.manual_seed(0)
        if form == "spline":
            return zuko.flows.NSF(size, bins=8, **sizes)
        return {"maf": zuko.flows.MAF, "coupling": zuko.flows.NICE}[form](size, **sizes)

    def step(flow: Any, optimizer: Any, rows: Any) -> None:
        loss = -flow().log_prob(rows).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def trained(split: int) -> tuple[Any, Any, Any, list[float]]:
        train, val, test = (torch.from_numpy(rows) for rows in problems.table(table, split))
        flow = built(train.shape[1])
        optimizer = torch.optim.Adam(flow.parameters(), lr=problems.RATE)
        best, kept = np.inf, copy.deepcopy(flow.state_dict())
        for number, chosen in enumerate(problems.batches(len(train), steps)):
            step(flow, optimizer, train[chosen])
            if number % problems.EVERY == 0 or number == steps - 1:
                with torch.no_grad():
                    cost = -flow().log_prob(val).mean().item()
                if cost < best:
                    best, kept = cost, copy.deepcopy(flow.state_dict())
        flow.load_state_dict(kept)
        with torch.no_grad():
            return flow, optimizer, train, (-flow().log_prob(test)).tolist()

    began = time.perf_counter()
    flow, optimizer, train, each = trained(0)
    seconds = time.perf_counter() - began
    index = problems.batches(len(train), steps)
    nats = [each, *(trained(split)[-1] for split in range(1, splits))]

    def draw(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                flow().sample((problems.DRAWN,))

    def turn() -> float:
        if task == "draw":
            return steady(draw, 1)
        return steady(lambda count: [step(flow, optimizer, train[index[n % steps]]) for n in range(count)], 4)

    versions = {"torch": torch.__version__, "zuko": zuko.__version__}
    return Ready(problems.judged(nats, train.shape[1]), seconds, versions, turn)


def _flowjax(form: str, table: str, task: str, steps: int, splits: int, threads: int) -> Ready:
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

    size = problems.table(table)[0].shape[1]
    sizes = {"flow_layers": problems.LAYERS, "nn_width": problems.WIDTH, "nn_depth": problems.HIDDEN[form]}
    base, key = Normal(jnp.zeros(size)), jax.random.key(0)
    if form == "coupling":
        flow = coupling_flow(key, base_dist=base, transformer=Affine(), **sizes)
    else:
        spline = RationalQuadraticSpline(knots=8, interval=3)
        chosen = Affine() if form == "maf" else spline
        flow = masked_autoregressive_flow(key, base_dist=base, transformer=chosen, **sizes)
    fixed = lambda leaf: isinstance(leaf, paramax.NonTrainable)  # noqa: E731
    fresh, rest = eqx.partition(flow, eqx.is_inexact_array, is_leaf=fixed)
    optimizer = optax.adam(problems.RATE)

    def cost(arrays: Any, rows: Any) -> Any:
        return -paramax.unwrap(eqx.combine(arrays, rest)).log_prob(rows).mean()

    @jax.jit
    def step(arrays: Any, state: Any, rows: Any) -> Any:
        slope = jax.grad(cost)(arrays, rows)
        updates, state = optimizer.update(slope, state, arrays)
        return optax.apply_updates(arrays, updates), state

    judge = jax.jit(cost)

    def trained(split: int) -> tuple[Any, Any, Any, Any, list[float]]:
        train, val, test = (jnp.asarray(rows) for rows in problems.table(table, split))
        arrays, state, best, kept = fresh, optimizer.init(fresh), np.inf, fresh
        for number, chosen_rows in enumerate(problems.batches(len(train), steps)):
            arrays, state = step(arrays, state, train[chosen_rows])
            if number % problems.EVERY == 0 or number == steps - 1:
                found = float(judge(arrays, val))
                if found < best:
                    best, kept = found, arrays
        return train, arrays, state, kept, [float(judge(kept, row[None])) for row in test]

    began = time.perf_counter()
    train, arrays, state, kept, each = trained(0)
    seconds = time.perf_counter() - began
    index = problems.batches(len(train), steps)
    nats = [each, *(trained(split)[-1] for split in range(1, splits))]
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
    return Ready(problems.judged(nats, size), seconds, versions, turn)


if __name__ == "__main__":
    serve(prepare)
