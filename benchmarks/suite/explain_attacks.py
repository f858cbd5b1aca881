"""PGD of 40 steps on a small convolutional network, beside the same loop in PyTorch, eager and compiled.

Ours is the public call `explain.pgd`, with all its checks. Both sides have the same weights and images, start at the
images themselves and keep for every image the worst point on the way; how far the wrong class then is ahead must agree.
`--smoke` runs toy sizes.
"""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import THREADS, Case, Contestant, Local, Options, Prepared, Report, against, measure
from benchmarks.peer import Peer
from benchmarks.workers import attack_network
from benchmarks.workers.attack_network import EPS, STEPS
from benchmarks.workers.protocol import steady
from chainrule import explain
from chainrule.core.types import Array
from chainrule.nn.attacks import margin
from chainrule.nn.convolution.functions import convolve

FORMS = {"torch": "eager", "torch-compile": "compile"}
SIZES = ((32, 28), (128, 28), (512, 28), (128, 64))
"""Images at once, and their sides."""
SMOKE = True


def run(options: Options) -> Report:
    """Measure all sizes."""
    peers = options.chosen(list(FORMS))
    cases: list[Case] = []
    versions: dict[str, str] = {}
    for count, side in ((4, 8),) if options.smoke else SIZES:
        label = f"PGD-{STEPS}, {count} images of {side}x{side}"
        print(f"{label} ...", flush=True)
        given = {"count": count, "side": side, "threads": THREADS}
        theirs: list[Contestant] = [
            Peer(name, "torch_attack", {**given, "form": FORMS[name]}) for name in peers
        ]
        case, found = measure(
            label,
            [ours(count, side), *theirs],
            rounds=options.rounds,
            tolerance=0.02,
            watch=options.watch,
        )
        cases.append(case)
        versions.update(found)
    notes = [line for case in cases for line in against(case, 1.0)]
    return Report(tuple(cases), (), tuple(notes), versions)


def ours(count: int, side: int) -> Local:
    """The public call on a function of arrays."""
    arrays = {name: jnp.asarray(a) for name, a in attack_network.weights(side).items()}
    x, y = attack_network.images(count, side)

    def logits(x: Array) -> Array:
        for i in range(3):
            pad = (0, 1) if x.shape[1] % 2 == 0 else (1, 1)
            kernel = arrays[f"conv{i}"]
            x = jax.nn.relu(convolve(x, kernel, stride=(2, 2), padding=(pad, pad), dilation=(1, 1)))
        return x.reshape(len(x), -1) @ arrays["dense"]

    def attack() -> Any:
        return explain.pgd(
            logits, x, y, EPS, STEPS, random_start=False, bounds=(0.0, 1.0)
        ).block_until_ready()

    def prepare() -> Prepared:
        began = time.perf_counter()
        found = attack()
        seconds = time.perf_counter() - began
        margins = [float(np.mean(margin(logits(jnp.asarray(z)), jnp.asarray(y)))) for z in (found, x)]
        return Prepared(margins, seconds)

    return Local("chainrule", prepare, lambda: steady(lambda times: [attack() for _ in range(times)], 1))


__all__ = ["run"]
