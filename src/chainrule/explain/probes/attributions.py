"""Attributions side by side: gradient methods and LIME on the same inputs, and how good each of them is.

Tables by column, images by pixel, texts by token; what is explained is a logit, a value, a log-likelihood or the
log-probability of the next token. Completeness, agreement, deletion and insertion, stability, and what is left of an
explanation when layers lose what they learned.
"""

from dataclasses import replace
from typing import Any, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.explain.methods import answers
from chainrule.explain.methods import attribution_pictures as pictures
from chainrule.explain.methods.chosen_rows import chosen_rows
from chainrule.explain.methods.gradients.side_by_side import (
    RANDOM,
    AttributionTask,
    MethodComparison,
    attributor,
    side_by_side,
)
from chainrule.explain.methods.input_groups import groups_of
from chainrule.explain.methods.prompts import check_length, tokens_of
from chainrule.explain.methods.quality.agreement import agreement
from chainrule.explain.methods.quality.randomisation import shuffled_from_the_top
from chainrule.explain.methods.quality.stability import stability
from chainrule.explain.methods.run_outputs import asked_output, numbers_of, output_function
from chainrule.explain.methods.token_functions import next_token, reads_by_body, text_outputs
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasTokenStream, Model
from chainrule.train import Run

CHECKED = ("saliency", "integrated gradients")
"""Methods that are held against noise and lost weights."""
TOKENS = 24
"""Tokens of a held-out text that are read where none is given."""


@final
class AttributionsSettings(Settings):
    """What is explained, and how much work goes into it."""

    rows: str = Field("0:4", description="rows of the test split: 0:4, 7 or 3,5,8")
    out: str = Field(
        "",
        description="the number to explain: logit:cat, value, log-likelihood, a token; empty: the largest of each row",
    )
    text: str = Field("", description="models of texts: the text to read; a held-out one if not given")
    background: int = Field(100, ge=2, description="training rows that say what is usual")
    samples: int = Field(
        256, ge=8, description="samples of expected gradients, and neighbours of each fit of LIME"
    )
    fits: int = Field(10, ge=2, description="fits of LIME")
    nodes: int = Field(1024, ge=1, description="most nodes of integrated gradients, which begin with 64")
    steps: int = Field(
        32, ge=2, description="steps of deletion and insertion curves, as many as there are entries at most"
    )
    stages: int = Field(
        8, ge=1, description="stages at which layers lose what they learned, the last one first"
    )
    patch: int | None = Field(None, ge=1, description="side of the patches of LIME; none: at most 64 patches")
    noise: float = Field(0.02, gt=0, description="noise of the stability check, in deviations of each entry")
    seed: int = Field(0, ge=0, description="of samples, noise and shuffling")


class _Asked(NamedTuple):
    """The inputs and what they are called."""

    task: AttributionTask
    names: list[str]
    """Of the groups."""
    label: str
    """Of the output."""
    labels: list[str]
    """Of the inputs."""
    image: bool
    ordered: bool
    """Whether groups have an order of their own."""


def examine(run: Run, data: Data, settings: AttributionsSettings) -> Outcome:
    """Every method on some inputs of a run, and what can be said of each."""
    asked = (
        _of_text(run, data, settings) if kinds.of(run.schema).has_tokens else _of_rows(run, data, settings)
    )
    task = asked.task
    found = side_by_side(task, fits=settings.fits, steps=min(task.groups, settings.steps))
    spread = np.maximum(task.background.std(axis=0), 1e-12)
    stable = {
        name: stability(
            attributor(task, name), task.x, settings.noise * spread, draws=2, seed=settings.seed
        ).correlation
        for name in CHECKED
    } | {"LIME": float(found.surrogate.stability.mean())}
    stages, alike = _without_learning(run.model, task, found, settings)
    drawn: list[Picture] = [
        pictures.images_by_method(task.x, found, asked.labels)
        if asked.image
        else pictures.values_by_method(found, asked.names, asked.label, ordered=asked.ordered),
        pictures.agreement_map(found),
        *pictures.curves(found, asked.label),
        *([pictures.lost_weights(stages, alike)] if stages else []),
    ]
    return Outcome(
        _findings(asked, found, alike),
        drawn,
        pictures.table(found, stable),
        _numbers(asked, found, stable, stages, alike),
    )


def _of_rows(run: Run, data: Data, settings: AttributionsSettings) -> _Asked:
    split, _ = data.held_out()
    rows = chosen_rows(settings.rows, len(split))
    x, background = (
        np.asarray(run.scaling.inverse(np.asarray(part)), np.float32)
        for part in (
            split.batch(rows).x,
            data.train.batch(np.arange(min(settings.background, len(data.train)))).x,
        )
    )
    if settings.out:
        one = asked_output(run, data, settings.out, x[:1])
        function, outputs = one.function, np.full(len(x), one.output)
    else:
        function = output_function(run, data)
        outputs = np.asarray(eqx.filter_jit(function)(jnp.asarray(x))).argmax(axis=1)
    groups = groups_of(data, settings.patch)
    task = AttributionTask(
        function, x, background, outputs, groups.membership, settings.samples, settings.nodes, settings.seed
    )
    titles = [function.title(int(output)) for output in outputs]
    label = titles[0] if len(set(titles)) == 1 else function.kind
    image = kinds.of(data.schema).spatial
    return _Asked(task, list(groups.names), label, titles, image, len(data.schema.shape) > 1)


def _of_text(run: Run, data: Data, settings: AttributionsSettings) -> _Asked:
    model: Any = run.model  # of tokens, see `_applies`
    schema = data.schema
    end, others = (
        len(schema.tokens),
        np.asarray(data.train.batch(np.arange(min(settings.background, len(data.train)))).x),
    )
    f: Any
    if isinstance(model, HasTokenStream):
        most = schema.shape[0] - 1
        posed = model.posed(settings.text or _held_out(data, settings)[: min(TOKENS, most)])
        tokens = np.asarray(posed.inputs[0])
        check_length(tokens, most=most)
        f = next_token(model, tokens, posed.position)
        pieces = ["[MASK]" if token >= end else _piece(schema, token) for token in tokens.tolist()]
    else:
        text = settings.text
        tokens = tokens_of(schema, text, most=schema.shape[0] - 1) if text else _held_out(data, settings)
        pieces = [_piece(schema, token) for token in tokens.tolist()] + ["[end]"]
        tokens = np.append(tokens, end).astype(np.int32)
        f = text_outputs(model, tokens)
    x, background = f.vectors_of(tokens[None]), f.vectors_of(others[:, : len(tokens)])
    pieces = ["[begin]"] * (x.shape[1] - len(pieces)) + pieces
    scores = np.asarray(eqx.filter_jit(f)(jnp.asarray(x)))[0]
    if isinstance(model, HasTokenStream):
        answer = answers.number_of(schema, settings.out, "out") if settings.out else int(scores.argmax())
        label = f"log-probability of {answers.name_of(schema, answer)!r}"
    else:
        asked = asked_output(run, data, settings.out or "logit", tokens[None])
        if asked.function.kind != "logit":
            raise ArgumentError(
                f"out={settings.out}: texts are explained by logits", remedy="use out=logit:CLASS"
            )
        answer, label = asked.output, asked.name
    membership = np.repeat(np.arange(x.shape[1])[:, None], x.shape[2], axis=1)
    task = AttributionTask(
        f, x, background, np.array([answer]), membership, settings.samples, settings.nodes, settings.seed
    )
    return _Asked(task, pieces, label, [label], False, True)


def _held_out(data: Data, settings: AttributionsSettings) -> np.ndarray:
    """The first held-out text of those that are asked for, without marks after its end."""
    split = data.val if len(data.val) else data.train
    found = np.asarray(split.batch(chosen_rows(settings.rows, len(split))[:1]).x)[0].astype(np.int32)
    return found[found < len(data.schema.tokens)]


def _piece(schema: Schema, token: int) -> str:
    return repr(tokenizers.of(schema).pieces(np.array([token]))[0])[1:-1]


def _without_learning(
    model: Model, task: AttributionTask, found: MethodComparison, settings: AttributionsSettings
) -> tuple[list[str], dict[str, list[float]]]:
    """Rank correlations with the trained model as layers are shuffled; nothing where no layer can be watched."""

    def of(mixed: Model) -> Any:
        return eqx.tree_at(lambda f: f.model, task.f, mixed)

    stages: list[str] = []
    alike: dict[str, list[float]] = {name: [] for name in CHECKED}
    key = random.key(settings.seed, "attributions")
    try:
        for name, mixed in shuffled_from_the_top(
            model, lambda one: of(one)(jnp.asarray(task.x[:1])), key, settings.stages
        ):
            stages.append(name)
            changed = replace(task, f=of(mixed), nodes=min(128, task.nodes))
            for method in CHECKED:
                pair = {"trained": found.values[method], "shuffled": attributor(changed, method)(task.x)}
                alike[method].append(float(agreement(pair, signed=True).correlation[0, 1]))
    except CapabilityError:
        return [], {}
    return stages, alike if stages else {}


def _findings(asked: _Asked, found: MethodComparison, alike: dict[str, list[float]]) -> list[str]:
    integrated = found.explanations["integrated gradients"]
    change = np.maximum(np.abs(integrated.outputs - integrated.base), 1e-12)
    residual = float((np.abs(integrated.residual) / change).max())
    pairs = [
        (found.agreement.correlation[i, j], a, b)
        for i, a in enumerate(found.agreement.names)
        for j, b in enumerate(found.agreement.names)
        if i < j
    ]
    least, most = min(pairs), max(pairs)
    area = {name: float(one.deletion_area.mean()) for name, one in found.curves.items()}
    best = min((name for name in area if name != RANDOM), key=area.__getitem__)
    surrogate = found.surrogate
    inputs = "one input" if len(asked.task.x) == 1 else f"{len(asked.task.x)} inputs"
    lost = ", ".join(f"{name} {values[-1]:.2f}" for name, values in alike.items())
    return [
        f"{integrated.method.capitalize()}, of {asked.label} on {inputs}: values miss the change of "
        f"the output by at most {residual:.2%} of it.",
        f"Methods agree from {least[0]:.2f} ({least[1]} and {least[2]}) to {most[0]:.2f} ({most[1]} and {most[2]}), by "
        "rank correlation.",
        f"Deletion brings the output down soonest by {best}: area {area[best]:.3g}, by {RANDOM} {area[RANDOM]:.3g}.",
        f"LIME: fidelity R² {surrogate.fidelity.mean():.2f} (least {surrogate.fidelity.min():.2f}) on neighbours it "
        f"has not seen, rank correlation between fits {surrogate.stability.mean():.2f}.",
        *([f"With all layers shuffled, rank correlation with the trained model: {lost}."] if lost else []),
        *(f"{name} is left out: {why}." for name, why in found.left_out.items()),
    ]


def _numbers(
    asked: _Asked,
    found: MethodComparison,
    stable: dict[str, float],
    stages: list[str],
    alike: dict[str, list[float]],
) -> dict[str, Any]:
    return {
        "output": asked.label,
        "names": asked.names,
        "values": {name: values.tolist() for name, values in found.values.items()},
        "residual": {
            name: one.residual.tolist() for name, one in found.explanations.items() if not one.slopes
        },
        "agreement": found.agreement.correlation.tolist(),
        "deletion area": {name: one.deletion_area.tolist() for name, one in found.curves.items()},
        "insertion area": {name: one.insertion_area.tolist() for name, one in found.curves.items()},
        "fidelity": found.surrogate.fidelity.tolist(),
        "stability": stable,
        "shuffled": {"layers": stages, **alike},
        "left out": dict(found.left_out),
    }


def _applies(model: Model, schema: Schema) -> bool:
    if kinds.of(schema).has_tokens:
        return isinstance(model, HasTokenStream) or (
            reads_by_body(model) and "logit" in numbers_of(model, schema)
        )
    return bool(numbers_of(model, schema))


probe = Probe(
    "Gradient attributions and LIME side by side, with residuals, agreement, deletion curves and lost weights.",
    "a model that predicts or knows a likelihood, or one of texts",
    _applies,
    examine,
    AttributionsSettings,
    toy={"rows": "0:2", "background": 8, "samples": 8, "fits": 2, "nodes": 8, "steps": 4, "stages": 1},
    also_without_text=True,
)

__all__ = ["AttributionsSettings", "examine", "probe"]
