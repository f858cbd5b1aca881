"""Shapley values of a trained model's outputs: what each feature, patch, window or token adds, with error bars.

One probe for every model: classifiers and regressors, the mean and the variance of Gaussian processes, the likelihood
of an example under a generative model ("why is this unlikely?"), the next token of a language model.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, final

import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.formatting import number
from chainrule.core.pictures import Picture, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods import explanation_overlays as overlays
from chainrule.explain.methods import explanation_pictures as pictures
from chainrule.explain.methods.input_groups import Groups, groups_of
from chainrule.explain.methods.other_runs import beside
from chainrule.explain.methods.raw_rows import RawRows, raw_rows
from chainrule.explain.methods.run_outputs import Asked, asked_output, numbers_of
from chainrule.explain.methods.shapley.explaining import shapley
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.explain.methods.shapley.maskers.drawn import filled
from chainrule.explain.methods.shapley.maskers.images import blurred, mean_coloured
from chainrule.explain.methods.superpixels import superpixels
from chainrule.explain.methods.token_values import reads_tokens, token_values
from chainrule.explain.protocol import Count, Outcome, Positive, Probe, Settings
from chainrule.models.protocol import HasSurprisal, Model
from chainrule.train import Run

_ROWS, _FEW_ROWS = "0:64", "0:3"
_BACKGROUND, _SMALL_BACKGROUND = 100, 8
_OF_IMAGES = {"blur": blurred, "mean-colour": mean_coloured}


@final
class ShapSettings(Settings):
    """What is explained, beside what, and how closely."""

    rows: str = Field(
        "", description="held-out rows, as in 0:64 or 3,5; none: 64 rows of a table, 3 images, one text"
    )
    out: str = Field(
        "", description="the number that is explained, as in logit:cat, variance or log-likelihood"
    )
    text: str = Field(
        "",
        description="models of texts: one of your own, whose class, last token or first [MASK] is explained",
    )
    tokens: int = Field(
        16, ge=2, le=1024, description="models that predict tokens: how many of a held-out text, without one"
    )
    method: Literal["auto", "exact", "permutation", "rows", "kernel"] = Field(
        "auto", description="how values are found"
    )
    absent: Literal[
        "auto", "interventional", "gaussian", "neighbours", "baseline", "blur", "mean-colour", "inpaint"
    ] = Field(
        "auto",
        description="what stands for features that are absent: training examples (interventional; gaussian or "
        "neighbours: given those that are present), their mean (baseline), of images a blur, their mean colour, or "
        "what the run filler= draws in their place (inpaint); auto: a blur of images, training examples of everything "
        "else",
    )
    filler: str = Field(
        "", description="with absent=inpaint: a run that fills gaps of such images, its name or its folder"
    )
    background: int | None = Field(
        None,
        ge=1,
        description="training examples that stand for absent features; none: 100 rows of a table, 8 images",
    )
    budget: int | None = Field(
        None, ge=8, description="coalitions, at most; none: two for each feature and 2,048"
    )
    tol: Positive = Field(
        0.01, description="standard errors, as a share of the range of values, at which to stop"
    )
    patch: int | None = Field(None, ge=1, description="images, sequences: side of a patch, steps of a window")
    superpixels: int | None = Field(
        None, ge=2, le=1024, description="images: about so many pieces of similar colour in place of patches"
    )
    outputs: Count = Field(3, description="images: outputs that are compared, the largest ones")
    feature: str = Field("", description="tables: whose dependence is drawn; none: the most important one")
    order: tuple[str, ...] = Field((), description="tables: features in the order of the decision paths")
    shown: int = Field(12, ge=1, le=100, description="features that pictures name; the rest is added up")
    seed: int = Field(0, ge=0, description="of everything that is drawn")


def _check_suited(schema: Schema, settings: ShapSettings) -> None:
    """Refuse settings that say nothing about such examples, rather than leave them out silently."""
    kind = kinds.of(schema)
    idle = ["superpixels"] if not kind.spatial else []
    idle += ["absent", "feature", "order"] if kind.has_tokens else ["text"]
    if settings.absent == "inpaint":
        idle += ["patch", "superpixels"]  # what is filled are the patches of the other run
    elif settings.filler:
        raise ArgumentError(
            f"filler={settings.filler}: nothing is filled in",
            remedy="say absent=inpaint, or leave filler out",
        )
    for name in idle:
        if getattr(settings, name) != ShapSettings.model_fields[name].default:
            whose = f"{kind.noun} whose patches another run fills in" if settings.filler else kind.noun
            raise ArgumentError(f"{name}: it says nothing about {whose}", remedy=f"leave {name} out")


class _Explained(NamedTuple):
    """Explanations of the same rows, one for each output, and what was said while they were made."""

    found: list[Explanation]
    asked: Asked
    rows: RawRows
    groups: Groups
    said: list[str]

    @property
    def comparable(self) -> Explanation:
        """The first explanation, of rows whose features are the same: of pieces that differ by image, the first row."""
        first = self.found[0]
        of_all = first.membership is not None and first.membership.ndim < first.x.ndim
        return first if of_all or first.names == self.groups.names else first[:1]


def examine(run: Run, data: Data, settings: ShapSettings) -> Outcome:
    """Shapley values of some rows, and every picture that suits them."""
    _check_suited(run.schema, settings)
    if kinds.of(run.schema).has_tokens:
        return _of_text(run, data, settings)
    made = _explained(run, data, settings)
    first = made.found[0]
    spatial = kinds.of(run.schema).spatial
    shown = _of_images(run, made) if spatial and kinds.of(run.schema).shows_pixels(run.schema) else []
    drawn = [*shown, *_of_rows(data, made, settings, spatial)]
    return Outcome(
        [*_findings(made), *made.said],
        drawn,
        _table(made, settings.shown),
        {
            "output": first.output,
            "rows": made.rows.numbers.tolist(),
            "names": list(first.names),
            "values": first.values.tolist(),
            "errors": None if first.errors is None else first.errors.tolist(),
            "base": first.base.tolist(),
            "outputs": first.outputs.tolist(),
            "residual": float(np.abs(first.residual).max()),
            "evaluations": first.evaluations,
        },
    )


def _explained(run: Run, data: Data, settings: ShapSettings) -> _Explained:
    part, said = data.held_out()
    table, spatial = len(run.schema.shape) == 1, kinds.of(run.schema).spatial
    rows = raw_rows(run, part, settings.rows or (_ROWS if table else _FEW_ROWS))
    asked, groups = asked_output(run, data, settings.out, rows.x[:1]), groups_of(data, settings.patch)
    outputs = [asked.output]
    if spatial and not settings.out:
        first = asked.all_values(rows.x[:1])[0]
        outputs = np.argsort(-first, kind="stable")[: settings.outputs].tolist()
    absent = _absent(run, data, settings, rows.x, groups)
    found = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChainruleWarning)
        for output in outputs:
            one = shapley(
                asked.function,
                rows.x,
                method=settings.method,
                output=output,
                output_names=[asked.function.title(i) for i in range(len(asked.function.names))],
                budget=settings.budget,
                tol=settings.tol,
                seed=settings.seed,
                **absent,
            )
            found.append(one if _own_pieces(settings) else replace(one, names=groups.names))
    remarks = dict.fromkeys(str(one.message).removeprefix("shapley: ") for one in caught)
    return _Explained(found, asked, rows, groups, [*(_sentence(text) for text in remarks), *said])


def _own_pieces(settings: ShapSettings) -> bool:
    """Whether what values belong to is not the groups of the data: pieces of an image, or another run's patches."""
    return bool(settings.superpixels) or settings.absent == "inpaint"


def _absent(run: Run, data: Data, settings: ShapSettings, x: np.ndarray, groups: Groups) -> dict[str, Any]:
    """What stands for absent features, as `shapley` takes it."""
    spatial, word = kinds.of(run.schema).spatial, settings.absent
    if word == "auto":
        word = "blur" if spatial else "interventional"
    if word in (*_OF_IMAGES, "inpaint"):
        if not spatial:
            raise ArgumentError(
                f"absent={word}: the examples are no images", remedy="use absent=interventional or baseline"
            )
        if word == "inpaint":
            if not settings.filler:
                raise ArgumentError(
                    "absent=inpaint: which run fills in what is absent?", remedy="name it: filler=RUN"
                )
            other = beside(run, settings.filler)
            return {"absent": filled(other, run.schema.shape, seed=settings.seed)}
        return {"absent": _OF_IMAGES[word](x, _pieces(run, settings, x, groups))}
    if settings.superpixels:
        raise ArgumentError(
            f"absent={word}: pieces of similar colour differ between images",
            remedy="use absent=blur or mean-colour",
        )
    table = len(run.schema.shape) == 1
    many = settings.background or (_BACKGROUND if table else _SMALL_BACKGROUND)
    behind = raw_rows(run, data.train, 1000 if word != "interventional" else many).x
    columns = {name: groups.columns(index).tolist() for index, name in enumerate(groups.names)}
    if word == "baseline":
        behind = behind.mean(axis=0, keepdims=True)
    return {"absent": word, "background": behind, "groups": columns}


def _pieces(run: Run, settings: ShapSettings, x: np.ndarray, groups: Groups) -> np.ndarray:
    """The patch of every pixel, or for each image the piece of similar colour."""
    if not settings.superpixels:
        return groups.membership[..., 0]
    return np.stack([superpixels(one, settings.superpixels) for one in _shares(run, x)])


def _shares(run: Run, x: np.ndarray) -> np.ndarray:
    """Raw images as shares of their range."""
    low, high = kinds.of(run.schema).raw_range(run.schema) or (0.0, 1.0)
    return np.asarray(np.clip((x - low) / (high - low), 0, 1), np.float64)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _findings(made: _Explained) -> list[str]:
    found = made.comparable
    sizes = found.mean_absolute().ravel()
    names = pictures.names_of(found)
    top = np.argsort(-sizes, kind="stable")[:3]
    listed = ", ".join(f"{names[i]} ({number(float(sizes[i]), 3)})" for i in top)
    worst = float(np.abs(made.found[0].residual).max())
    single = len(found) == 1
    many = f"row {int(made.rows.numbers[0])}" if single else f"{len(found):,} rows"
    averaged = "" if single else " on average"
    sentences = [
        f"The {found.output} of {many}, {number(float(found.outputs.mean()))}{averaged}, beside "
        f"{number(float(found.base.mean()))} with no feature known.",
        f"Largest{averaged}: {listed}.",
        _sentence(f"{found.method}; absent: {found.kind}; {found.evaluations:,} evaluations of the model"),
    ]
    if not made.found[0].is_additive:
        sentences.insert(0, f"The values do not add up to the output: the residual is {number(worst)}.")
    return sentences


def _of_rows(data: Data, made: _Explained, settings: ShapSettings, spatial: bool) -> Sequence[Picture]:
    """Waterfall and force of the first row, and of all rows what suits them."""
    found, label = made.found[0], made.asked.label
    names = None if _own_pieces(settings) else made.groups.shown(made.rows.x[0], data)
    which = int(made.rows.numbers[0])
    of_first = [
        pictures.waterfall(
            found[0],
            names=names,
            shown=settings.shown,
            joined=joined,
            label=label,
            title=f"{'What raises and lowers' if joined else 'From the base value to'} the output of row {which}",
        )
        for joined in (False, True)
    ]
    if settings.superpixels:
        return of_first  # pieces of one image are not those of the next
    several: list[Picture] = [pictures.bar(found, shown=settings.shown, label=label)]
    if len(found) > 1 and not spatial:
        several.append(pictures.heat_map(found, shown=settings.shown, label=label))
        several.append(
            pictures.decision_paths(found, order=settings.order, shown=settings.shown, label=label)
        )
        swarm = pictures.beeswarm(found, shown=settings.shown, label=label)
        several = [swarm, *several, pictures.dependence(found, settings.feature or None, label=label)]
    return [*of_first, *several]


def _of_images(run: Run, made: _Explained) -> Sequence[Picture]:
    return [overlays.image_overlay(made.found, _shares(run, made.rows.x))]


def _table(made: _Explained, shown: int) -> Table:
    found = made.comparable
    sizes, values = found.mean_absolute().ravel(), found.values.reshape(len(found), -1)
    order = np.argsort(-sizes, kind="stable")[:shown]
    names = pictures.names_of(found)
    errors = np.zeros_like(values) if found.errors is None else found.errors.reshape(values.shape)
    rows = [[names[i], float(sizes[i]), float(values[:, i].mean()), float(errors[:, i].max())] for i in order]
    heads = ["feature", "mean size", "mean", "largest standard error"]
    return Table("shap-table", f"Shapley values: {found.output}", heads, rows)


def _of_text(run: Run, data: Data, settings: ShapSettings) -> Outcome:
    """What each token, or word, of a text adds to what is predicted."""
    if settings.out and isinstance(run.model, HasSurprisal):
        raise ArgumentError(
            f"out={settings.out}: the last token of a text is what is explained", remedy="end text= in it"
        )
    made = token_values(
        run,
        data,
        settings.text,
        row=settings.rows,
        out=settings.out,
        tokens=settings.tokens,
        background=settings.background or _SMALL_BACKGROUND,
        method=settings.method,
        budget=settings.budget,
        tol=settings.tol,
        seed=settings.seed,
    )
    found, part, unit = made.found, made.part, made.unit
    values = found.values.ravel()
    best, worst = int(values.argmax()), int(values.argmin())
    listed: list[tuple[int, str, float]] = [
        (i + 1, repr(made.pieces[i])[1:-1], float(value)) for i, value in enumerate(values)
    ]
    measured = f" {unit}" if unit else ""
    label = f"{found.output}, {unit}" if unit else found.output
    drawn: list[Picture] = [
        overlays.text_highlight(
            found, made.pieces, title=f"What each {part} adds to {found.output}", unit=unit
        ),
        pictures.waterfall(
            found,
            names=[f"{i}: {text.replace(' ', '·')}" for i, text, _ in listed],
            shown=settings.shown,
            label=label,
        ),
    ]
    return Outcome(
        [
            f"The {found.output} is {number(float(found.outputs))}{measured}, {number(float(found.base))} without any "
            f"of the {len(values)} {part}s.",
            f"{part.capitalize()} {best + 1}, {listed[best][1]!r}, raises it most ({number(float(values[best]), 3)}), "
            f"{part} {worst + 1}, {listed[worst][1]!r}, least ({number(float(values[worst]), 3)}).",
            _sentence(
                f"{found.method}; absent: {found.kind}; {found.evaluations:,} evaluations of the model"
            ),
        ],
        drawn,
        Table("shap-tokens", found.output, ["position", part, f"value{f', {unit}' if unit else ''}"], listed),
        {
            "output": found.output,
            "tokens": list(made.pieces),
            "values": values.tolist(),
            "base": float(found.base),
            "outputs": float(found.outputs),
            "residual": float(np.abs(found.residual).max()),
            "evaluations": found.evaluations,
        },
    )


def _applies(model: Model, schema: Schema) -> bool:
    return bool(numbers_of(model, schema)) if not kinds.of(schema).has_tokens else reads_tokens(model, schema)


probe = Probe(
    "Shapley values: what each feature, patch or token adds to an output, with error bars; every picture of them.",
    "a model that predicts, knows the likelihood of an example, or predicts tokens of texts",
    _applies,
    examine,
    ShapSettings,
    toy={"rows": "1", "background": 2, "budget": 200, "patch": 4, "tokens": 4, "outputs": 2},
    also_without_text=True,
)

__all__ = ["ShapSettings", "examine", "probe"]
