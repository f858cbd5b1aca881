"""What each head, each MLP and the embedding add to the logit of the right answer.

Of a language model that is the token that follows, of a masked one a hidden token, of a translator the next token of
the target (its attention to the source has heads of its own), of a vision transformer the class of an image.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule.core.pictures import Bars, Heatmap, Picture, Table
from chainrule.data import kinds, targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import pairs
from chainrule.explain.methods.answers import END, tokenizer_of
from chainrule.explain.methods.attribution import Attribution, logit_attribution, source_attribution
from chainrule.explain.methods.prompts import tokens_of
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasResidualStream, Model, StreamQuestions
from chainrule.networks.pictures import tokens
from chainrule.train import Run

_SHOWN = 12
"""Components that are shown token by token: those that add or take most."""
_LONGEST = 32


@final
class AttributionSettings(Settings):
    """How much text is looked at."""

    text: str = Field(
        "", description="a text to read (of a translator: a source); validation examples if not given"
    )
    passages: int = Field(16, ge=1, description="examples of the validation split")


def examine(run: Run, data: Data, settings: AttributionSettings) -> Outcome:
    """Take the logits of the right answers apart, above the mean logit of all answers."""
    model: Any = eqx.nn.inference_mode(run.model)  # has a residual stream, see `_applies`
    batch, said = _examples(model, data, settings)
    asked = model.questions(batch, jax.random.key(0))
    found = logit_attribution(model, asked.inputs, asked.answers)
    counted = np.asarray(asked.asked)
    by_passage = (found.values * counted).sum(axis=2) / counted.sum(axis=1)
    means, errors = by_passage.mean(axis=1), _errors(by_passage)
    logit = float(means.sum())
    order = np.argsort(-np.abs(means), kind="stable")
    best = int(means.argmax())
    several = len(counted) > 1
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
            f"The logit of the right answer lies {logit:.3g} above the mean logit, over {said}: {shares}.",
            f"{found.names[best][0].upper()}{found.names[best][1:]} adds most: {means[best]:+.3g}.",
        ],
        [
            *_where(model, data.schema, asked, found, order[:_SHOWN]),
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
            "logit": logit,
            "contributions": dict(zip(found.names, means.tolist(), strict=True)),
        },
    )


def _examples(model: Any, data: Data, settings: AttributionSettings) -> tuple[Batch, str]:
    """A text of one's own, or so many examples of the validation split; and what they are called."""
    schema = data.schema
    if not settings.text:
        batch = data.val.batch(np.arange(min(settings.passages, len(data.val))))
        return jax.tree.map(jnp.asarray, batch), f"{len(batch.x)} validation examples"
    if targets.of(schema).has_tokens:
        source = jnp.asarray(pairs.encode(schema, settings.text))[None, :]
        return Batch(source, model.translate(source)), "the text and what it becomes"
    x = tokens_of(schema, settings.text, most=schema.shape[0])[None, :]
    return Batch(jnp.asarray(x)), "the text"


def _errors(by_passage: Float[np.ndarray, "components passages"]) -> Float[np.ndarray, " components"]:
    count = by_passage.shape[1]
    return by_passage.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(len(by_passage))


def _where(
    model: HasResidualStream, schema: Schema, asked: StreamQuestions, found: Attribution, chosen: np.ndarray
) -> list[Picture]:
    """The contributions token by token, or patch by patch, of the first example."""
    grid = model.stream_grid()
    if grid is not None:
        return [_patches(model, asked, grid)]
    positions = np.flatnonzero(np.asarray(asked.asked[0]))[:_LONGEST]
    answers = np.asarray(asked.answers[0])[positions]
    tokenizer = tokenizer_of(schema)
    assert tokenizer is not None, "streams without a grid are of tokens"
    known = answers < len(tokenizer)  # the end of a target has a number behind its vocabulary
    names = iter(tokens.names(tokenizer, answers[known]))
    return [
        Heatmap(
            "attribution-tokens",
            "Token by token",
            "right answer",
            "component",
            found.values[chosen][:, 0, positions],
            [found.names[i] for i in chosen],
            [next(names) if there else END for there in known],
            diverging=True,
            caption="What each component adds to the logit of each token that is asked for in "
            + ("the text." if len(asked.answers) == 1 else "the first example."),
        )
    ]


def _patches(model: HasResidualStream, asked: StreamQuestions, grid: tuple[int, int]) -> Heatmap:
    """What all heads together bring from each patch of the first image to the token that gathers."""
    first = tuple(one[:1] for one in asked.inputs)
    brought = source_attribution(model, first, asked.answers[:1]).sum(axis=(0, 1))[0]
    patches = brought[-grid[0] * grid[1] :]
    return Heatmap(
        "attribution-patches",
        "Patch by patch",
        "",
        "",
        patches.reshape(grid),
        diverging=True,
        caption="What all heads of all layers bring from each patch of the first image straight to the logit of its "
        "class, above the mean logit.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    answers = kinds.of(schema).has_tokens or targets.of(schema).one_class
    return (
        isinstance(model, HasResidualStream)
        and answers
        and not any(block.norm_at == "post" for block in model.residual_stream().blocks)
    )


probe = Probe(
    "What each head and each MLP adds to the logit of the right answer.",
    "a model whose layers add to a residual stream, of text, of pairs or of images with a class",
    _applies,
    examine,
    AttributionSettings,
    toy={"passages": 2},
)

__all__ = ["AttributionSettings", "examine", "probe"]
