"""The deep variational bottleneck over its price: what codes cost and say, and how easily answers change."""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core import random
from chainrule.core.errors import DataError
from chainrule.core.pictures import Lines, Table
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.explain.methods.attacks import fgsm
from chainrule.explain.methods.training import train
from chainrule.explain.protocol import Count, Experiment, Listener, NonNegative, Outcome, Settings
from chainrule.models.protocol import HasScores, Model

_MOST = 1000
"""Test examples that are judged."""


@final
class DeepBottleneckSettings(Settings):
    """The data, the prices and the training of each."""

    data: str = Field("digits", description="data with classes")
    load: dict[str, Any] = Field(default_factory=dict, description="options of the data, e.g. load.n=1000")
    betas: tuple[NonNegative, ...] = Field(
        (0.0, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0), min_length=1, description="prices of a nat of the code"
    )
    latent: Count = Field(16, description="entries of a code")
    width: Count = Field(256, description="units of the hidden layers of the encoder")
    steps: Count = Field(1000, description="of training, for every price")
    eps: NonNegative = Field(0.1, description="change of every entry by the attack, in units of the model")
    seed: int = Field(0, ge=0, description="weights, batches and draws")


def run(settings: DeepBottleneckSettings, listener: Listener) -> Outcome:
    """Train a bottleneck for every price, and judge it on the same held-out examples."""
    loaded = sources.load(settings.data, **settings.load)
    if not targets.of(loaded.schema).one_class:
        raise DataError(
            f"{loaded.name}: a class for every example is needed",
            remedy="give data with classes, such as digits",
        )
    rows = []
    for beta in sorted(set(settings.betas)):
        listener(f"beta {beta:g}: {settings.steps:,} steps")
        model = models.build(
            "vib",
            loaded,
            seed=settings.seed,
            beta=beta,
            latent=settings.latent,
            width=settings.width,
        )
        found = train(
            model,
            loaded,
            steps=settings.steps,
            every=settings.steps,
            seed=settings.seed,
            batch=min(64, len(loaded.train)),
            optimizer={"name": "adam", "lr": 1e-3},
        ).model
        rows.append([beta, *_judged(found, loaded, settings)])
    return _outcome(settings, loaded, np.array(rows))


def _judged(model: Model, data: Data, settings: DeepBottleneckSettings) -> tuple[float, ...]:
    """Bits a code costs and says, accuracy, and accuracy after a step along the gradient."""
    assert isinstance(model, HasScores), "a bottleneck has scores of its own"
    part, _ = data.held_out()
    batch = jax.tree.map(jnp.asarray, part.batch(np.arange(min(_MOST, len(part)))))
    scores = model.scores(batch, random.key(settings.seed, "deep-bottleneck"))
    y = np.asarray(batch.y)
    shares = np.bincount(y) / len(y)
    entropy = float(-(shares[shares > 0] * np.log2(shares[shares > 0])).sum())
    network: Any = model
    moved = fgsm(network.logits, batch.x, batch.y, settings.eps)
    accuracy, attacked = (
        float((np.asarray(network.predict(x)).argmax(axis=1) == y).mean()) for x in (batch.x, moved)
    )
    rate, missing = (float(np.mean(np.asarray(scores[name].values))) for name in ("rate", "missing"))
    return rate, entropy - missing, accuracy, attacked


def _outcome(settings: DeepBottleneckSettings, data: Data, rows: np.ndarray) -> Outcome:
    betas, rate, said, accuracy, attacked = rows.T
    order = np.argsort(rate)
    sturdy = int(attacked.argmax())
    best = int(accuracy.argmax())
    marks = [(float(r), f"beta {b:g}") for b, r in zip(betas[order], rate[order], strict=True)]
    return Outcome(
        [
            f"From beta {betas[0]:g} to {betas[-1]:g} a code costs from {rate[0]:.3g} to {rate[-1]:.3g} bits (a bound "
            f"of I(X; Z) from above) and says at least {said[0]:.3g} to {said[-1]:.3g} bits about the class.",
            f"Accuracy is highest, {accuracy[best]:.3f}, at beta {betas[best]:g}; after a step of {settings.eps:g} "
            f"along the gradient it is highest, {attacked[sturdy]:.3f}, at beta {betas[sturdy]:g} "
            f"({attacked[0]:.3f} at beta {betas[0]:g}).",
        ],
        [
            Lines(
                "deep-bottleneck",
                f"What codes of {data.name} say and cost",
                "I(X; Z) at most, bits",
                "I(Z; Y) at least, bits",
                {"over the price": (rate[order], said[order])},
                log_x=True,
                marks=marks,
                caption="Each point is a network trained with another price of its code; bounds, not informations.",
            ),
            Lines(
                "deep-bottleneck-accuracy",
                "Right answers by what a code costs",
                "I(X; Z) at most, bits",
                "accuracy",
                {
                    "as they are": (rate[order], accuracy[order]),
                    "attacked": (rate[order], attacked[order]),
                },
                caption=f"Held-out examples, and the same after a step of {settings.eps:g} along the gradient.",
                log_x=True,
                marks=marks,
            ),
        ],
        Table(
            "deep-bottleneck-table",
            "By the price of a code",
            [
                "beta",
                "I(X; Z) at most, bits",
                "I(Z; Y) at least, bits",
                "accuracy",
                f"attacked by {settings.eps:g}",
            ],
            [[float(value) for value in row] for row in rows],
        ),
        {
            "unit": "bits",
            "betas": betas.tolist(),
            "rate": rate.tolist(),
            "information": said.tolist(),
            "accuracy": accuracy.tolist(),
            "attacked": attacked.tolist(),
        },
    )


experiment = Experiment(
    "The deep variational bottleneck over its price: bits a code costs and says, accuracy and robustness.",
    DeepBottleneckSettings,
    run,
    toy={"data": "moons", "load": {"n": 100}, "betas": (0.0, 0.1), "latent": 2, "width": 4, "steps": 4},
    reference="Alemi, Fischer, Dillon and Murphy, Deep variational information bottleneck, ICLR 2017, arXiv:1612.00410",
)

__all__ = ["DeepBottleneckSettings", "experiment", "run"]
