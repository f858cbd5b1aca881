"""Steps a second of whole trainings on CartPole, beside PyTorch with Gymnasium; and many agents in one program.

PPO and DQN with their default settings, updates included, one run on each side. Everybody has the same network, as the
number of its parameters shows. The last row are runs in one call, in seconds for a step of each: 2,048 of them on an
accelerator, 16 on a processor. `--smoke` measures two.
"""

import time
from typing import Any

import jax

from benchmarks.harness import THREADS, Case, Contestant, Local, Options, Prepared, Report, against, measure
from benchmarks.peer import Peer
from benchmarks.workers.protocol import steady
from chainrule.agents.algorithms.dqn import ENTRY as DQN
from chainrule.agents.algorithms.ppo import ENTRY as PPO
from chainrule.agents.envs import make
from chainrule.agents.learning import loop
from chainrule.agents.learning.base import AlgorithmEntry
from chainrule.core import tree

PEERS = ("torch",)
SMOKE = True
GOAL = 0.1
"""Of the time of a plain loop, at most."""


def run(options: Options) -> Report:
    """Measure all of them."""
    peers = options.chosen(PEERS)
    cases: list[Case] = []
    versions: dict[str, str] = {}
    notes: list[str] = []
    for entry in (PPO, DQN):
        print(f"{entry.name} ...", flush=True)
        theirs: list[Contestant] = [
            Peer(peer, "torch_agents", {"task": entry.name, "threads": THREADS}) for peer in peers
        ]
        case, found = measure(
            f"{entry.name} on cartpole, a step",
            [_local(entry, 1), *theirs],
            rounds=options.rounds,
            tolerance=0,
            watch=options.watch,
        )
        cases.append(case)
        versions.update(found)
        notes += against(case, GOAL)
    many = 2048 if jax.default_backend() != "cpu" else 2 if options.smoke else 16
    case, _ = measure(
        f"ppo on cartpole, {many:,} agents, a step of each",
        [_local(PPO, many)],
        rounds=options.rounds,
        tolerance=0,
        watch=options.watch,
    )
    return Report((*cases, case), (), tuple(notes), versions)


def _local(entry: AlgorithmEntry, seeds: int) -> Contestant:
    learner = entry.build(entry.config(), make("cartpole"), entry.steps)
    kept: dict[str, Any] = {}

    def iterate(steps: int) -> None:
        count = steps // learner.steps_per_iteration
        kept["states"], _ = loop.run_iterations(learner, kept["states"], count, most=8)

    def prepare() -> Prepared:
        kept["states"] = loop.start(learner, jax.random.key(0), seeds=seeds)
        began = time.perf_counter()
        while learner.steps_per_iteration * kept.get("done", 0) < 12_000:  # past the start of learning
            iterate(8 * learner.steps_per_iteration)
            kept["done"] = kept.get("done", 0) + 8
        network = loop.run_of(kept["states"], 0).network
        return Prepared([float(tree.size(network))], time.perf_counter() - began)

    return Local("chainrule", prepare, lambda: steady(iterate, 8 * learner.steps_per_iteration))


__all__ = ["run"]
