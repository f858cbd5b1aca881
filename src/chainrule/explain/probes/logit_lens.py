"""The logit lens: predictions read out after every layer (nostalgebraist, 2020)."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Table
from chainrule.core.types import Array, Int
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.explain.methods.prompts import passages
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasLens, Model
from chainrule.networks.pictures import tokens
from chainrule.nn import losses
from chainrule.train import Run

_SHOWN = 24


@final
class LensSettings(Settings):
    """How much text is looked at."""

    text: str = Field("", description="a text to read; passages of the validation split if not given")
    passages: int = Field(32, ge=1, description="passages of the validation split")


def examine(run: Run, data: Data, settings: LensSettings) -> Outcome:
    """Read the logits out after every layer, on a text or on passages of the validation split."""
    model: Any = eqx.nn.inference_mode(run.model)  # has a lens, see `_applies`
    sequences, said = passages(data, settings.text, settings.passages)
    x = jnp.asarray(sequences)
    loss, agree, best = (np.asarray(part) for part in _read(model, x))
    depth = np.arange(len(loss), dtype=float)
    tokenizer = tokenizers.of(data.schema)
    seen = tokens.names(tokenizer, np.asarray(x[0, :-1][:_SHOWN]))
    guesses = [tokens.names(tokenizer, row[: len(seen)]) for row in best]
    labels = ["embedding", *(f"layer {i}" for i in range(1, len(loss)))]
    half = int(np.argmax(agree >= 0.5))
    return Outcome(
        [
            f"Read out after the embedding alone the loss is {loss[0]:.3f} nats, after all {len(loss) - 1} layers "
            f"{loss[-1]:.3f}.",
            f"{agree[half]:.0%} of the final guesses are there after {labels[half]}.",
        ],
        [
            Lines(
                "lens-loss",
                "Loss if the layers ended here",
                "layers",
                "nats per token",
                {said: (depth, loss)},
            ),
            Lines(
                "lens-agreement",
                "Guesses that stay to the end",
                "layers",
                "share",
                {"likeliest token is the final one": (depth, agree)},
            ),
        ],
        Table(
            "lens",
            "The likeliest next token after each layer",
            ["read out after", *(f"{i + 1}: {name}" for i, name in enumerate(seen))],
            [[label, *row] for label, row in zip(labels, guesses, strict=True)],
            caption="Each column is a position of the text and headed by the token that stands there.",
        ),
        {"loss": loss.tolist(), "agreement": agree.tolist()},
    )


@eqx.filter_jit
def _read(model: Any, x: Int[Array, "batch tokens"]) -> tuple[Array, Array, Array]:
    """Mean loss and agreement with the last layer at each depth, and the guesses for the first passage."""
    logits = model.lens(x[:, :-1])
    loss = jax.lax.map(lambda one: losses.cross_entropy(one, x[:, 1:]).mean(), logits)
    best = logits.argmax(axis=-1)
    return loss, (best == best[-1:]).mean(axis=(1, 2)), best[:, 0]


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasLens) and kinds.of(schema).has_tokens


probe = Probe(
    "What the model would say if its layers ended early.",
    "a model of text whose layers can be read out one by one",
    _applies,
    examine,
    LensSettings,
    toy={"passages": 2},
)

__all__ = ["LensSettings", "examine", "probe"]
