"""What each head, each MLP and the embedding add to the logit of the token that follows."""

from typing import Any, final

import equinox as eqx
import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule.core.pictures import Bars, Heatmap, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.explain.methods.attribution import Attribution, logit_attribution
from chainrule.explain.methods.prompts import passages
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasResidualStream, HasSurprisal, Model
from chainrule.networks.pictures import tokens
from chainrule.train import Run

_SHOWN = 12
"""Components that are shown token by token: those that add or take most."""
_LONGEST = 32


@final
class AttributionSettings(Settings):
    """How much text is looked at."""

    text: str = Field("", description="a text to read; passages of the validation split if not given")
    passages: int = Field(16, ge=1, description="passages of the validation split")


def examine(run: Run, data: Data, settings: AttributionSettings) -> Outcome:
    """Take the logits of what really follows apart, above the mean logit of all tokens."""
    model: Any = eqx.nn.inference_mode(run.model)  # has a residual stream, see `_applies`
    x, said = passages(data, settings.text, settings.passages)
    found = logit_attribution(model, x[:, :-1], x[:, 1:])
    by_passage = found.values.mean(axis=2)
    means, errors = by_passage.mean(axis=1), _errors(by_passage)
    order = np.argsort(-np.abs(means), kind="stable")
    best = int(means.argmax())
    several = len(x) > 1
    rows: list[list[str | float | int]] = [
        [found.names[i], float(means[i]), *([float(errors[i])] if several else [])] for i in order
    ]
    groups = {
        "embedding": [i for i, name in enumerate(found.names) if name in ("embedding", "positions")],
        "heads": [i for i, name in enumerate(found.names) if "head" in name],
        "MLPs": [i for i, name in enumerate(found.names) if name.endswith("MLP")],
    }
    shares = ", ".join(f"{name} {means[chosen].sum():+.3g}" for name, chosen in groups.items())
    return Outcome(
        [
            f"The logit of the token that follows lies {found.logits.mean():.3g} above the mean logit, over {said}: "
            f"{shares}.",
            f"{found.names[best][0].upper()}{found.names[best][1:]} adds most: {means[best]:+.3g}.",
        ],
        [
            _map(found, order[:_SHOWN], x, data.schema),
            Bars(
                "attribution-components",
                "What is added to the right logit",
                "component",
                "logit above the mean",
                [found.names[i] for i in order[: 2 * _SHOWN]],
                {"mean": means[order[: 2 * _SHOWN]]},
                caption=f"Mean over {said}. The scale of the last normalisation is held; all components together are "
                "the logit, exactly. What a component does by way of later layers is not counted.",
            ),
        ],
        Table(
            "attribution-table",
            "Contributions",
            ["component", "mean", *(["standard error"] if several else [])],
            rows,
        ),
        {
            "logit": float(found.logits.mean()),
            "contributions": dict(zip(found.names, means.tolist(), strict=True)),
        },
    )


def _errors(by_passage: Float[np.ndarray, "components passages"]) -> Float[np.ndarray, " components"]:
    count = by_passage.shape[1]
    return by_passage.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(len(by_passage))


def _map(found: Attribution, chosen: np.ndarray, x: np.ndarray, schema: Schema) -> Heatmap:
    names = tokens.names(tokenizers.of(schema), x[0])[: _LONGEST + 1]
    count = len(names) - 1
    return Heatmap(
        "attribution-tokens",
        "Token by token",
        "token that follows",
        "component",
        found.values[chosen, 0, :count],
        [found.names[i] for i in chosen],
        names[1:],
        diverging=True,
        caption="What each component adds to the logit of each token of "
        + ("the text" if len(x) == 1 else "the first passage")
        + ", read before it came.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    return (
        isinstance(model, HasResidualStream)
        and isinstance(model, HasSurprisal)
        and kinds.of(schema).has_tokens
        and not any(block.norm_at == "post" for block in model.blocks)
    )


probe = Probe(
    "What each head and each MLP adds to the logit of the token that follows.",
    "a language model whose layers add to a residual stream",
    _applies,
    examine,
    AttributionSettings,
    toy={"passages": 2},
)

__all__ = ["AttributionSettings", "examine", "probe"]
