"""Wake-sleep against its reweighted variant: how far the recognition network is from the posterior, in both directions.

All codes are visited, so that likelihood, bound and both divergences are exact at every point of training. The bound's
gap is KL(q || p) on the data. Sleep lowers KL(p || q) on dreams, reweighting KL(p || q) on the data.
"""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import data, models
from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.core.types import Array, Key
from chainrule.data.batches import Batch
from chainrule.explain.methods.training import train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models.protocol import HasLatents, HasLogProb, Model
from chainrule.probability.variational import importance_bound

_JUDGED = 256
"""Held-out examples."""
_CODES = 200
"""Codes of each by which the bound and the divergence are averaged."""


@final
class WakeSleepSettings(Settings):
    """The machine, and how long it learns."""

    units: int = Field(
        10, ge=1, le=16, description="hidden units, of one layer; few, so that all codes are visited"
    )
    k: int = Field(20, ge=2, le=1000, description="codes of each example in the reweighted variant")
    steps: int = Field(1500, ge=1, description="of training")
    lr: float = Field(1e-2, gt=0, le=1, description="learning rate")
    seed: int = Field(0, ge=0, description="weights and draws")


def run(settings: WakeSleepSettings, listener: Listener) -> Outcome:
    """Both methods from the same weights on the same digits."""
    digits = data.load("binary-digits")
    held_out = digits.val.batch(np.arange(min(_JUDGED, len(digits.val))))
    batch = Batch(jnp.asarray(held_out.x))
    every = max(1, settings.steps // 15)
    found: dict[str, list[tuple[float, ...]]] = {}
    for method in ("wake-sleep", "reweighted"):
        listener(f"{method}: {settings.steps:,} steps")
        model = models.build(
            "helmholtz", digits, seed=settings.seed, layers=(settings.units,), method=method, k=settings.k
        )
        rows = found.setdefault(method, [])

        def watch(step: int, model: Model, rows: list[tuple[float, ...]] = rows) -> None:
            rows.append((step, *map(float, _judged(model, batch, random.key(settings.seed, "judged")))))

        optimizer: dict[str, Any] = {"name": "adam", "lr": settings.lr}
        train(
            *(model, digits),
            steps=settings.steps,
            every=every,
            watch=watch,
            batch=100,
            seed=settings.seed,
            optimizer=optimizer,
            schedule={"name": "cosine"},
        )
    return _outcome(settings, {method: np.array(rows) for method, rows in found.items()})


@eqx.filter_jit
def _judged(model: Model, batch: Batch, key: Key) -> tuple[Array, Array, Array]:
    """Exact nats, the gap of the bound KL(q || p), and KL(p || q) by the weights of codes from q; means of examples."""
    assert isinstance(model, HasLatents)
    assert isinstance(model, HasLogProb)
    exact = model.log_prob(batch.x)
    weights = model.log_weights(batch, key, _CODES)
    # E_p log p/q = E_q (w/p(x)) log (w/p(x)) for weights w = p(x, z)/q(z|x); normalised by the weights' own mean.
    ratio = weights - importance_bound(weights)[None, :]
    backward = (jnp.exp(ratio) * (weights - exact[None, :])).mean(axis=0)
    return -exact.mean(), (exact - weights.mean(axis=0)).mean(), backward.mean()


def _outcome(settings: WakeSleepSettings, found: dict[str, np.ndarray]) -> Outcome:
    last = {method: rows[-1] for method, rows in found.items()}
    names = ["-log p, exact", "KL(q || p)", "KL(p || q)"]
    ahead = last["wake-sleep"][1] - last["reweighted"][1]
    forward, back = ([last[method][column] for method in ("wake-sleep", "reweighted")] for column in (2, 3))
    return Outcome(
        [
            f"After {settings.steps:,} steps held-out digits cost {last['wake-sleep'][1]:.2f} nats by wake-sleep and "
            f"{last['reweighted'][1]:.2f} reweighted with k = {settings.k}: {abs(ahead):.2f} "
            f"{'fewer' if ahead > 0 else 'more'}.",
            f"The gap of the bound, KL(q || p), is {forward[0]:.2f} and {forward[1]:.2f} nats, KL(p || q) on the data "
            f"{back[0]:.2f} and {back[1]:.2f}. Each is the distance to the machine's own posterior, and that of a "
            "machine which makes more of its codes is harder to recognise.",
        ],
        [
            Lines(
                f"wake-sleep-{number}",
                title,
                "step",
                "nats per held-out example",
                {method: (rows[:, 0], rows[:, number]) for method, rows in found.items()},
                caption=caption,
            )
            for number, (title, caption) in enumerate(
                (
                    ("Negative log-likelihood", "Exact: all codes are visited."),
                    ("Gap of the bound", "KL(q(z|x) || p(z|x)) on the data, which an ELBO would lower."),
                    (
                        "The other divergence",
                        "KL(p(z|x) || q(z|x)) on the data; sleep lowers it on dreams instead.",
                    ),
                ),
                start=1,
            )
        ],
        Table(
            "wake-sleep",
            "At the end of training",
            ["method", *names],
            [[method, *(round(float(value), 3) for value in row[1:])] for method, row in last.items()],
            caption="Means over held-out digits, in nats.",
        ),
        {method: dict(zip(names, map(float, row[1:]), strict=True)) for method, row in last.items()},
    )


experiment = Experiment(
    "Wake-sleep against its reweighted variant: likelihood, the gap of the bound, and the other divergence.",
    WakeSleepSettings,
    run,
    toy={"units": 3, "steps": 4, "k": 2},
    reference="Bornschein and Bengio, Reweighted wake-sleep, ICLR 2015",
)

__all__ = ["WakeSleepSettings", "experiment", "run"]
