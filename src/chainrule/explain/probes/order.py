"""The value of word order to a language model: its loss when the context is shuffled."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasSurprisal, Model
from chainrule.train import Run


@final
class OrderSettings(Settings):
    """How many passages are shuffled."""

    examples: int = Field(256, ge=1, description="held-out passages")
    repeats: int = Field(2, ge=1, le=50, description="shuffles of each passage")
    seed: int = Field(0, ge=0, description="the shuffles")


def examine(run: Run, data: Data, settings: OrderSettings) -> Outcome:
    """The surprisal of each passage's last token when all but the nearest tokens before it are shuffled."""
    model = run.model
    assert isinstance(model, HasSurprisal)
    x = np.asarray(data.val.batch(np.arange(min(len(data.val), settings.examples))).x)
    read = x.shape[1] - 1
    kept = [2**i for i in range(read.bit_length()) if 2**i < read] + [read]
    last = eqx.filter_jit(lambda model, x: model.surprisal(x)[:, -1].mean())
    generator = np.random.default_rng(settings.seed)
    nats = np.array(
        [
            np.mean(
                [
                    float(last(model, jnp.asarray(_shuffled(x, read - near, generator))))
                    for _ in range(settings.repeats if near < read else 1)
                ]
            )
            for near in kept
        ]
    )
    lost = nats - nats[-1]
    enough = next(near for near, loss in zip(kept, lost, strict=True) if loss <= 0.05 * max(lost[0], 0))
    return Outcome(
        [
            f"With all tokens in order the last one costs {nats[-1]:.3f} nats; with only the nearest in order "
            f"{nats[0]:.3f}.",
            f"The nearest {enough} of {read} in order bring 95 % of what order is worth."
            if lost[0] > 1e-3
            else "Order farther back than the nearest token is worth nothing to this model.",
        ],
        [
            Lines(
                "order",
                "What order is worth",
                "tokens left in order before the one predicted",
                "nats for the last token",
                {"held-out text": (np.array(kept, dtype=float), nats)},
                log_x=True,
                caption=f"Everything farther back is shuffled, so the model still knows which tokens were there. Mean "
                f"over {len(x)} passages.",
            )
        ],
        None,
        {"kept": kept, "nats": nats.tolist()},
    )


def _shuffled(x: np.ndarray, far: int, generator: np.random.Generator) -> np.ndarray:
    """The first `far` tokens of each row in an order of its own."""
    return np.concatenate([generator.permuted(x[:, :far], axis=1), x[:, far:]], axis=1)


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasSurprisal) and kinds.of(schema).has_tokens


probe = Probe(
    "How much worse the next token is predicted when the text before it is shuffled.",
    "a model that predicts text token by token",
    _applies,
    examine,
    OrderSettings,
    toy={"examples": 4, "repeats": 1},
)

__all__ = ["OrderSettings", "examine", "probe"]
