"""Adversarial robustness: accuracy and confidence when every number of an example may change a little.

Changes are in the raw units of the data, and the attacks differentiate through the scaling stored with the run. Noise
and an attack by queries alone stand beside those by gradients, so that masked gradients are noticed. With other runs of
the same data, a matrix shows how well examples made against one of them fool the next.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, final

import jax
import numpy as np
import pydantic
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import short_number
from chainrule.core.pictures import Heatmap, Lines, Picture, Table
from chainrule.core.settings import Quotient
from chainrule.core.types import Key
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.attacks import Attack, AutomaticSteps, Iterated, smallest_radii
from chainrule.explain.methods.input_groups import groups_of
from chainrule.explain.methods.other_runs import beside
from chainrule.explain.methods.robustness import Robustness, attacks_of, examined, transferred
from chainrule.explain.methods.robustness.alarms import BLACK_BOX, MANY_STEPS, OWN_STEPS, SUSPECTED, slack
from chainrule.explain.methods.robustness.pictures import before_and_after, decision_map, histogram, magnified
from chainrule.explain.methods.robustness.report import STARTS
from chainrule.explain.methods.robustness.threat import Threat, entry_noun, threat_of
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanPredict, Model
from chainrule.nn.attacks import check_radius
from chainrule.train import Run


@final
class AttackSettings(Settings):
    """What is tried."""

    eps: tuple[Annotated[Quotient, Field(ge=0)], ...] = Field(
        (),
        description="how far a number may move, in raw units: 0 to 255 for 8-bit images, else 0 to 1, those of the "
        "columns for tables; with norm=2 the length of the whole change. Fractions such as 8/255 are shares of the "
        "range. Empty: as shares says",
    )
    shares: tuple[Annotated[Quotient, Field(ge=0, le=1)], ...] = Field(
        (0.0, 0.01, 0.02, 0.05, 0.1, 0.2),
        min_length=1,
        description="the same as shares of the range, such as 8/255: of pixels, or of each column of the training "
        "examples; with norm=2 of the root mean square change",
    )
    norm: Literal["inf", "2"] = Field(
        "inf",
        description="what is bounded: the change of every number (inf), or the length of the whole change",
    )
    target: str = Field(
        "", description="the class that attacked examples shall be taken for; empty: any but their own"
    )
    examples: int = Field(200, ge=1, description="test examples that are attacked")
    steps: int = Field(40, ge=1, le=10_000, description="steps of the iterated attack")
    step: float | None = Field(
        None, gt=0, description="length of its steps, in units of eps; none: 2.5 eps / steps"
    )
    random_start: bool = Field(True, description="whether it begins at a random point of what is allowed")
    momentum: float = Field(0.0, ge=0, lt=1, description="share of earlier gradients that its steps keep")
    restarts: int = Field(1, ge=1, le=1000, description="starts, of which every example keeps the worst")
    loss: Literal["cross-entropy", "margin"] = Field(
        "cross-entropy", description="what steps drive up; margin: how far another class is ahead"
    )
    automatic: int = Field(
        0, ge=0, le=10_000, description="steps of an attack that finds their length by itself; 0: none"
    )
    queries: int = Field(
        300, ge=0, le=1_000_000, description="queries of the attack without gradients (squares); 0: none"
    )
    smallest: int = Field(
        50, ge=0, description="test examples of which the smallest eps that is enough is sought; 0: none"
    )
    others: tuple[str, ...] = Field(
        (),
        description="other runs of the same data, their names beside this one or their folders: how well examples made "
        "against each fool the others, at the largest change",
    )
    seed: int = Field(0, ge=0, lt=2**32, description="decides random starts, noise and squares")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _fractions_are_shares(cls, given: Any) -> Any:
        """The literature writes 8/255 for images between 0 and 1, whatever the units of the files are."""
        eps = given.get("eps") if isinstance(given, dict) else None
        sizes = [eps] if isinstance(eps, str) else list(eps) if isinstance(eps, list | tuple) else []
        written = [isinstance(size, str) and "/" in size for size in sizes]
        if not any(written):
            return given
        if not all(written) or "shares" in given:
            raise ValueError("fractions are shares of the range: give all of them so, or none")
        return {**given, "eps": (), "shares": tuple(sizes)}

    @pydantic.field_validator("shares")
    @classmethod
    def _one_unit(cls, shares: tuple[float, ...], info: Any) -> tuple[float, ...]:
        if info.data.get("eps") and shares != cls.model_fields["shares"].default:
            raise ValueError("eps says already how far a number may move; give one of the two")
        return shares

    @pydantic.field_validator("restarts")
    @classmethod
    def _different_starts(cls, restarts: int, info: Any) -> int:
        if restarts > 1 and not info.data.get("random_start", True):
            raise ValueError("with random_start=false all starts are the same; leave one of the two out")
        return restarts


def examine(run: Run, data: Data, settings: AttackSettings) -> Outcome:
    """Accuracy and confidence against the size of the change, by attacks of every kind."""
    threat = threat_of(run, data, settings.examples, settings.target, settings.norm, bool(settings.eps))
    sizes = settings.eps or tuple(share * threat.most for share in settings.shares)
    sizes = tuple(sorted({0.0, *sizes}))  # what was right before is part of every answer
    for eps in sizes:
        check_radius("attack", eps, threat.aim.bounds, run.schema.shape, settings.norm)
    tried = attacks_of(
        *(
            settings.norm,
            settings.steps,
            settings.loss,
            settings.momentum,
            settings.restarts,
            settings.queries,
        ),
        step=settings.step,
        random_start=settings.random_start,
    )
    if settings.automatic:
        tried[OWN_STEPS] = AutomaticSteps(settings.norm, steps=settings.automatic)
    key, targeted = jax.random.key(settings.seed), bool(settings.target)
    report = examined(threat.aim, sizes, tried, key, targeted=targeted, own=threat.y)
    named = _named(report, threat)
    columns = list(named)
    rows = np.array([named[column] for column in columns]).T
    further = [_smallest(threat, settings, key), _transfer(run, threat, settings, sizes[-1], key)]
    pictures = [
        _curves(named, settings, threat, report.count),
        *_examples(run, threat, settings, report, tried[MANY_STEPS], key),
    ]
    unlimited = {} if report.unlimited is None else {"accuracy, every change": report.unlimited}
    return Outcome(
        [
            *_findings(named, settings, threat, report, run.schema),
            *_words(data),
            *threat.said,
            *(line for part in further for line in part.findings),
        ],
        [*pictures, *(picture for part in further for picture in part.pictures)],
        Table("attack-table", "Under attack", columns, rows.tolist()),
        {
            **named,
            **unlimited,
            "range": [threat.low, threat.high],
            "alarms": list(report.alarms),
            **{name: value for part in further for name, value in part.numbers.items()},
        },
    )


def _examples(
    run: Run, threat: Threat, settings: AttackSettings, report: Robustness, attack: Attack, key: Key
) -> list[Picture]:
    """What becomes of examples at the largest change, and in the plane how they get there."""
    eps, worst = float(report.eps[-1]), np.asarray(report.worst)
    caption = f"{settings.steps} steps, eps = {short_number(eps)}, {threat.words}."
    raw = (threat.raw(threat.aim.x), threat.raw(worst))
    found = [before_and_after(threat.aim, worst, threat.y, run.schema, raw, caption)]
    if not settings.target:
        sizes = report.eps.tolist()
        found += magnified(threat.aim, worst, threat.y, run.schema, sizes, attack, key, threat.raw)
    if kinds.of(run.schema).is_plane(run.schema) and not settings.target:
        steps = min(settings.steps, 10)
        found.append(decision_map(threat.aim, threat.y, run.schema, eps, steps, settings.norm, settings.loss))
    return found


def _named(report: Robustness, threat: Threat) -> dict[str, list[float]]:
    """Every curve by name."""
    found = {"change": (report.eps / threat.most).tolist(), "eps": report.eps.tolist()}
    measures = {
        "accuracy": report.accuracy,
        "confidence": report.confidence,
        "taken for the target": report.hits,
    }
    for attack in report.accuracy:
        for measure, curves in measures.items():
            if attack in curves:
                found[f"{measure}, {attack}"] = curves[attack].tolist()
    return found


def _findings(
    named: dict[str, list[float]],
    settings: AttackSettings,
    threat: Threat,
    report: Robustness,
    schema: Schema,
) -> list[str]:
    eps, least = named["eps"][-1], named["eps"][0]
    share, noun = f"{named['change'][-1]:.1%} of the range", entry_noun(schema)
    what = (
        f"every {noun} moves by at most {share} of its column"
        if settings.norm == "inf" and threat.unit.ndim
        else f"every {noun} moves by at most {short_number(eps)} ({share})"
        if settings.norm == "inf"
        else f"the whole change has at most length {short_number(eps)} (root mean square {share})"
    )
    after = {name: values[-1] for name, values in report.accuracy.items()}
    listed = {name: f"{value:.1%} after {_in_words(name, settings)}" for name, value in after.items()}
    found = [
        *report.findings(),
        f"Raw values go from {threat.low:g} to {threat.high:g}; with eps = {short_number(eps)} {what}.",
        f"Accuracy on {report.count} test examples is {named['accuracy, one step'][0]:.1%} at eps "
        f"{short_number(least)}; at eps {short_number(eps)} it is {', '.join(listed.values())}.",
        f"Confidence in what is then predicted: {named['confidence, one step'][-1]:.0%} after one step, "
        f"{named['confidence, many steps'][-1]:.0%} after {settings.steps}.",
    ]
    if report.repeated:
        found.append(
            f"A single start looked too weak: many steps are the worst of {STARTS} random starts here."
        )
    if not report.alarms and not settings.target:
        found.append(
            "No sign of masked gradients: nothing does more damage than many steps up the gradient, but for chance "
            f"({slack(report.count):.1%} of the examples)."
        )
    if settings.target:
        one, many = (named[f"taken for the target, {how}"][-1] for how in ("one step", "many steps"))
        found.append(
            f"Taken for {settings.target}: {one:.1%} after one step, {many:.1%} after {settings.steps}."
        )
    if settings.eps and schema.levels > 2 and 0 < max(settings.eps) < 1:
        found.append(
            f"eps = {short_number(max(settings.eps))} is less than one of {schema.levels} levels. For that share of "
            f"the range say shares={short_number(max(settings.eps))}."
        )
    return found


def _words(data: Data) -> list[str]:
    """What is to be said where columns of words were attacked like numbers."""
    if data.reading is None or len(groups_of(data).single) == data.schema.dimensions:
        return []
    return [
        "The marks of a column of words moved like numbers, to shares of several words: what rows of a table can be "
        "changed to does less harm."
    ]


def _in_words(name: str, settings: AttackSettings) -> str:
    words = {
        MANY_STEPS: f"{settings.steps} steps",
        BLACK_BOX: f"{settings.queries} queries without gradients",
        OWN_STEPS: f"{settings.automatic} steps of their own length",
    }
    return words.get(name, name)


def _curves(named: dict[str, list[float]], settings: AttackSettings, threat: Threat, count: int) -> Lines:
    about = f" towards {settings.target}" if settings.target else ""
    unit = "the most that a number moves" if settings.norm == "inf" else "the length of the change"
    x = np.array(named["eps"])
    shown = ("accuracy", "taken for the target") if settings.target else ("accuracy",)
    curves = {label: (x, np.array(v)) for label, v in named.items() if label.startswith(shown)}
    curves |= {"confidence, many steps": (x, np.array(named["confidence, many steps"]))}
    return Lines(
        "attack",
        f"Accuracy under attack{about}",
        f"eps, {threat.words}",
        "share",
        curves,
        caption=f"eps is {unit}. {count} test examples; many steps: {settings.steps}, each projected back onto the "
        "allowed change"
        + (f"; black box: {settings.queries} queries, no gradient." if settings.queries else "."),
    )


def _smallest(threat: Threat, settings: AttackSettings, key: Any) -> Outcome:
    """How little is enough, example by example."""
    if not settings.smallest:
        return Outcome([])
    few = threat.aim._replace(x=threat.aim.x[: settings.smallest], y=threat.aim.y[: settings.smallest])
    attack = Iterated(settings.norm, "margin", min(settings.steps, 20), restarts=settings.restarts)
    found = smallest_radii(few, attack, threat.most, key, rounds=10, targeted=bool(settings.target))
    eps = np.asarray(found.eps, np.float64)
    reached = eps[np.isfinite(eps)]
    never = len(eps) - len(reached)
    words = f"; no change at all is enough for {never}" if never else ""
    lines = [f"No change is enough for any of {never} examples."]
    if len(reached):
        low, middle, high = np.quantile(reached, [0.1, 0.5, 0.9])
        lines = [
            f"The smallest eps that is enough: {short_number(middle)} for half of {len(eps)} examples, from "
            f"{short_number(low)} to {short_number(high)} for eight of ten{words}."
        ]
    return Outcome(
        lines,
        [histogram(found, threat.most, threat.words)],
        None,
        {"smallest eps": {"eps": reached.tolist(), "never": never}},
    )


def _transfer(run: Run, threat: Threat, settings: AttackSettings, eps: float, key: Any) -> Outcome:
    """Accuracy of every run on examples made against every run, and on the examples as they are."""
    if not settings.others:
        return Outcome([])
    runs = [run, *(beside(run, name) for name in settings.others)]
    for other in runs[1:]:
        _check_alike(run, other)
    attack = Iterated(
        *(settings.norm, settings.loss, settings.steps, settings.step, settings.momentum),
        *(settings.restarts, settings.random_start),
    )
    aims = [threat.aimed_at(one) for one in runs]
    found = transferred(aims, attack, eps, key, threat.y, targeted=bool(settings.target))
    names = [one.id for one in runs]
    away = ~np.eye(len(runs), dtype=bool)
    worst = np.where(away, found.accuracy - found.clean[None], np.inf)
    source, judge = np.unravel_index(worst.argmin(), worst.shape)
    lines = [
        f"Transfer at eps = {short_number(eps)}: examples made without a look at the judging network leave "
        f"{found.accuracy[away].mean():.1%} accuracy on average, those made against it "
        f"{found.accuracy.diagonal().mean():.1%}; worst, {names[source]} against {names[judge]}: "
        f"{found.clean[judge]:.1%} to {found.accuracy[source, judge]:.1%}."
    ]
    matrix = np.concatenate([found.clean[None], found.accuracy])
    seen, unseen = found.accuracy[0, 0], found.accuracy[1:, 0].min()
    if unseen < seen - slack(len(threat.y)) and not settings.target:
        lines.append(
            f"Examples made against another run fool {run.id} more than its own ({unseen:.1%} against {seen:.1%}): "
            f"{SUSPECTED}."
        )
    return Outcome(
        lines,
        [
            Heatmap(
                "attack-transfer",
                "Accuracy on examples made against another run",
                "judged by",
                "made against",
                matrix,
                ["none (clean)", *names],
                names,
                numbers=True,
                caption=f"{len(threat.y)} test examples, {settings.steps} steps, eps = {short_number(eps)}, "
                f"{threat.words}. Off the diagonal the attacker has not seen the network that judges.",
            )
        ],
        None,
        {
            "transfer": {
                "runs": names,
                "clean": found.clean.tolist(),
                "accuracy": found.accuracy.tolist(),
            }
        },
    )


def _check_alike(run: Run, other: Run) -> None:
    """Examples can go from one run to the other: same examples, same classes."""
    facts: Sequence[tuple[str, Callable[[Schema], Any]]] = (
        ("examples", lambda schema: schema.shape),
        ("levels", lambda schema: schema.levels),
        ("classes", lambda schema: schema.classes),
    )
    for what, of in facts:
        if of(other.schema) != of(run.schema):
            raise ArgumentError(
                f"others={other.id}: its {what} are {of(other.schema)}, those of {run.id} {of(run.schema)}",
                remedy="name runs of the same data",
            )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanPredict) and targets.of(schema).one_class and not kinds.of(schema).has_tokens


probe = Probe(
    "Accuracy when every number may move a little: noise, FGSM, PGD, queries alone; with alarms, also between runs.",
    "a classifier of images, points, sequences or rows of a table",
    _applies,
    examine,
    AttackSettings,
    toy={"shares": (0.0, 0.1), "examples": 10, "steps": 2, "queries": 2, "smallest": 2},
)

__all__ = ["AttackSettings", "examine", "probe"]
