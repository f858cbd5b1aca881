"""Neurons of the MLPs: the loss without each of those that matter, and the texts on which they fire most."""

from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Bars, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.explain.methods.ablation import Ablation, ablate_neurons
from chainrule.explain.methods.activations import run_with_cache
from chainrule.explain.methods.prompts import tokens_of
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasTokenStream, Model
from chainrule.train import Run

_BEFORE = 12
"""Tokens of a text that are shown before the one on which a neuron fires."""
_TEXTS = 3


@final
class NeuronSettings(Settings):
    """How much text is looked at, and how many neurons are measured."""

    text: str = Field("", description="a text on which neurons are watched; held-out passages if not given")
    passages: int = Field(16, ge=1, description="passages of the validation split")
    neurons: int = Field(16, ge=1, le=1000, description="neurons that are measured, the most important first")
    ablate: Literal["zero", "mean"] = Field(
        "zero", description="what takes the place of a neuron's activation when it is taken out"
    )


def examine(run: Run, data: Data, settings: NeuronSettings) -> Outcome:
    """Rank all neurons by a first-order estimate, and measure the loss without each of the first."""
    model: Any = eqx.nn.inference_mode(run.model)  # has a residual stream, see `_applies`
    batch = jax.tree.map(jnp.asarray, data.val.batch(np.arange(min(settings.passages, len(data.val)))))
    key = random.key(run.settings.seed, "probe")
    chosen, found = ablate_neurons(model, batch, key, settings.ablate, most=settings.neurons)
    window = data.schema.shape[0] - 1
    x = (
        tokens_of(data.schema, settings.text, most=window)[None, :]
        if settings.text
        else np.asarray(batch.x[:, :window])
    )
    _, cache = run_with_cache(model.logits, jnp.asarray(x), names="*.mlp.post")
    fired = [np.asarray(value) for value in cache.values()]
    names = [f"layer {i + 1}, neuron {j + 1}" for i, j in chosen]
    order = np.argsort(-found.rise, kind="stable")
    rows = [_row(names[n], chosen[n], found, int(n), fired, x, data.schema) for n in order]
    total, best = sum(one.shape[-1] for one in fired), int(order[0])
    error = f" ± {found.stderr[best]:.2g}" if len(batch.x) > 1 else ""
    return Outcome(
        [
            f"Of {total:,} neurons in {len(fired)} layers, {names[best]} matters most: without it the loss of "
            f"{found.base:.4g} nats rises by {found.rise[best]:.3g}{error}.",
            f"{int((found.rise > 2 * found.stderr).sum())} of the {len(chosen)} that were measured raise the loss by "
            "more than two standard errors when they are taken out."
            if len(batch.x) > 1
            else "One passage has no standard error: passages= reads more.",
        ],
        [
            Bars(
                "neurons-loss",
                "Loss without a neuron",
                "neuron",
                "rise of the loss (nats)",
                [names[n] for n in order],
                {"rise": found.rise[order]},
                caption=f"Over {len(batch.x)} passages; a neuron's activation is replaced by "
                f"{'zero' if settings.ablate == 'zero' else 'its mean'}.",
            )
        ],
        Table(
            "neurons-table",
            "Neurons that matter most",
            [
                "neuron",
                "rise of the loss",
                "standard error",
                "largest activation",
                "fires most at the end of",
            ],
            rows,
        ),
        {"base_loss": found.base, "rise": dict(zip(names, found.rise.tolist(), strict=True))},
    )


def _row(
    name: str,
    neuron: tuple[int, int],
    found: Ablation,
    n: int,
    fired: list[np.ndarray],
    x: np.ndarray,
    schema: Schema,
) -> list[str | float | int]:
    values = fired[neuron[0]][..., neuron[1]]
    error = float(found.stderr[n])
    shown = error if np.isfinite(error) else ""
    return [name, float(found.rise[n]), shown, float(values.max()), _contexts(values, x, schema)]


def _contexts(values: np.ndarray, x: np.ndarray, schema: Schema) -> str:
    """The ends of the texts on which a neuron fires most."""
    tokenizer = tokenizers.of(schema)
    ends = [np.unravel_index(i, values.shape) for i in np.argsort(-values, axis=None, kind="stable")[:_TEXTS]]
    return "  ".join(repr(tokenizer.decode(x[row, max(0, at - _BEFORE) : at + 1])) for row, at in ends)


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasTokenStream) and kinds.of(schema).has_tokens


probe = Probe(
    "The neurons that matter most, the loss without each, and the texts on which they fire.",
    "a transformer of text",
    _applies,
    examine,
    NeuronSettings,
    toy={"passages": 2, "neurons": 2},
)

__all__ = ["NeuronSettings", "examine", "probe"]
