"""Adversarial robustness: accuracy and confidence when every pixel may change a little in the worst direction.

Changes are in the raw units of the images, and the attacks differentiate through the scaling stored with the run.
With other runs of the same data, a matrix shows how well examples made against one of them fool the next.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pydantic
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.formatting import short_number
from chainrule.core.pictures import Heatmap, Images, Lines, Table
from chainrule.core.types import Array
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.explain.methods.attacks import loss_of_raw
from chainrule.explain.methods.other_runs import beside
from chainrule.explain.protocol import NonNegative, Outcome, Probe, Settings, Share
from chainrule.models.protocol import CanPredict, Model
from chainrule.nn.attacks import Bounds, check_radius, climb
from chainrule.train import Run

SHOWN = 6
"""Images of the sheet."""
AT_ONCE = 100
"""Images that are attacked together."""


@final
class AttackSettings(Settings):
    """What is tried."""

    eps: tuple[NonNegative, ...] = Field(
        (),
        description="how far a pixel may move, in raw units: 0 to 255 for 8-bit images, else 0 to 1; with norm=2 the "
        "length of the whole change. Empty: as shares says",
    )
    shares: tuple[Share, ...] = Field(
        (0.0, 0.01, 0.02, 0.05, 0.1, 0.2),
        min_length=1,
        description="the same as shares of the range from darkest to brightest; with norm=2 of the root mean square "
        "change of a pixel",
    )
    norm: Literal["inf", "2"] = Field(
        "inf",
        description="what is bounded: the change of every pixel (inf), or the length of the whole change",
    )
    target: str = Field(
        "", description="the class that attacked images shall be taken for; empty: any but their own"
    )
    examples: int = Field(500, ge=1, description="test images that are attacked")
    steps: int = Field(20, ge=1, description="steps of the iterated attack")
    step: float | None = Field(
        None, gt=0, description="length of its steps, in raw units; none: 2.5 eps / steps"
    )
    random_start: bool = Field(True, description="whether it begins at a random point of what is allowed")
    others: tuple[str, ...] = Field(
        (),
        description="other runs of the same data, their names beside this one or their folders: how well examples made "
        "against each fool the others, at the largest change",
    )

    @pydantic.field_validator("shares")
    @classmethod
    def _one_unit(cls, shares: tuple[float, ...], info: Any) -> tuple[float, ...]:
        if info.data.get("eps") and shares != cls.model_fields["shares"].default:
            raise ValueError("eps says already how far a pixel may move; give one of the two")
        return shares


class _Threat(NamedTuple):
    """What an attacker may do; `eps` and `size` are arrays, the rest is fixed in the compiled program."""

    eps: Array
    size: Array
    steps: int
    norm: str
    targeted: bool
    bounds: Bounds
    random_start: bool


class _Images(NamedTuple):
    """Raw images, the classes that attacks are about (their own, or the target) and their own classes."""

    raw: np.ndarray
    aim: np.ndarray
    y: np.ndarray


@final
class _Victim:
    """What is attacked: compiled functions of raw images."""

    def __init__(self, run: Run) -> None:
        self.model: Any = run.model  # a classifier, see `_applies`
        scaling = run.scaling

        def climbed(model: Any, raw: Array, aim: Array, threat: _Threat, key: Array) -> Array:
            return climb(
                *(loss_of_raw(model, scaling, aim), raw, threat.eps),
                -threat.size if threat.targeted else threat.size,
                threat.steps,
                norm=threat.norm,
                key=key if threat.random_start else None,
                bounds=threat.bounds,
            )

        self._climbed = eqx.filter_jit(climbed)
        self._predicted = eqx.filter_jit(lambda model, raw: model.predict(scaling.apply(raw)))

    def attacked(self, images: _Images, threat: _Threat) -> np.ndarray:
        """Raw images after the attack."""

        def some(raw: np.ndarray, aim: np.ndarray, number: int) -> Array:
            key = random.at(random.key(0, "attack"), number)
            return self._climbed(self.model, jnp.asarray(raw), jnp.asarray(aim), threat, key)

        return _in_parts(some, images.raw, images.aim)

    def probabilities(self, raw: np.ndarray) -> np.ndarray:
        """Of the classes of raw images."""
        return _in_parts(lambda raw, number: self._predicted(self.model, jnp.asarray(raw)), raw)


def examine(run: Run, data: Data, settings: AttackSettings) -> Outcome:
    """Accuracy and confidence against the size of the change, by one step and by many."""
    schema = run.schema
    bounds = kinds.of(schema).raw_range(schema)
    assert bounds is not None, "images have a range"
    images = _chosen(data, run.scaling, schema, settings)
    entries = schema.dimensions if settings.norm == "2" else 1
    unit = (bounds[1] - bounds[0]) * math.sqrt(entries)
    sizes = settings.eps or tuple(share * unit for share in settings.shares)
    for eps in sizes:
        check_radius("attack", eps, bounds, entries)
    victim = _Victim(run)
    rows, attacked = [], images.raw
    for eps in sizes:
        one, many = (
            victim.attacked(images, _threat(settings, eps, bounds, steps=n)) for n in (1, settings.steps)
        )
        attacked = many
        rows.append([eps / unit, eps, *_measure(victim, images, one), *_measure(victim, images, many)])
    numbers = np.array(rows, dtype=np.float64)
    measures = ["accuracy", "confidence", *(["taken for the target"] if settings.target else [])]
    columns = ["change", "eps", *(f"{m}, {how}" for how in ("one step", "many steps") for m in measures)]
    named = {label: numbers[:, i].tolist() for i, label in enumerate(columns)}
    transfer = _transfer(run, images, settings, sizes[-1], bounds) if settings.others else Outcome([])
    return Outcome(
        [*_findings(named, settings, bounds, len(images.y)), *transfer.findings],
        [
            _curves(named, settings, bounds, len(images.y)),
            _sheet(victim, images, attacked, bounds, schema, sizes[-1], settings),
            *transfer.pictures,
        ],
        Table("attack-table", "Under attack", columns, numbers.tolist()),
        {**named, "range": list(bounds), **transfer.numbers},
    )


def _chosen(data: Data, scaling: Scaling, schema: Schema, settings: AttackSettings) -> _Images:
    """The first test images in raw units; with a target, those of other classes."""
    part = data.examples("test")
    y = np.asarray(part.y)
    which = np.arange(len(y))
    target = None
    if settings.target:
        if settings.target not in schema.classes:
            raise ArgumentError(
                f"target={settings.target}: no class has this name{suggest(settings.target, schema.classes)}",
                remedy=f"classes: {', '.join(schema.classes[:10])}{', ...' if len(schema.classes) > 10 else ''}",
            )
        target = schema.classes.index(settings.target)
        which = which[y != target]
        if not len(which):
            raise ArgumentError(f"target={settings.target}: every test image is of this class already")
    which = which[: settings.examples]
    raw = np.asarray(scaling.inverse(np.asarray(part.batch(which).x)), np.float32)
    own = y[which]
    return _Images(raw, own if target is None else np.full_like(own, target), own)


def _threat(settings: AttackSettings, eps: float, bounds: Bounds, *, steps: int) -> _Threat:
    """Several steps as the settings say; a single one has the whole length and starts at the image itself."""
    many = steps > 1
    size = (settings.step or 2.5 * eps / steps) if many else eps
    return _Threat(
        *(jnp.float32(eps), jnp.float32(size), steps, settings.norm, bool(settings.target), bounds),
        random_start=many and settings.random_start,
    )


def _in_parts(f: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """What a function gives for a few examples at a time, all parts of one size, so that it is compiled once."""
    count = len(arrays[0])
    size = min(AT_ONCE, count)
    parts = []
    for number, first in enumerate(range(0, count, size)):
        index = np.arange(first, first + size) % count  # the last part begins again
        parts.append(np.asarray(f(*(a[index] for a in arrays), number)))
    return np.concatenate(parts)[:count]


def _measure(victim: _Victim, images: _Images, raw: np.ndarray) -> list[float]:
    """Accuracy, confidence and, where there is a target, how often it is predicted."""
    p = victim.probabilities(raw)
    predicted = p.argmax(axis=-1)
    found = [float((predicted == images.y).mean()), float(p.max(axis=-1).mean())]
    targeted = bool((images.aim != images.y).any())
    return [*found, float((predicted == images.aim).mean())] if targeted else found


def _findings(
    named: dict[str, list[float]], settings: AttackSettings, bounds: Bounds, count: int
) -> list[str]:
    eps, least = named["eps"][-1], named["eps"][0]
    share = f"{named['change'][-1]:.1%} of the range"
    what = (
        f"every pixel moves by at most {short_number(eps)} ({share})"
        if settings.norm == "inf"
        else f"the whole change has at most length {short_number(eps)} (root mean square {share})"
    )
    before = f"{named['accuracy, one step'][0]:.1%} (eps {short_number(least)})"
    found = [
        f"Raw pixels go from {bounds[0]:g} to {bounds[1]:g}; with eps = {short_number(eps)} {what}.",
        f"That takes accuracy on {count} test images from {before} to {named['accuracy, one step'][-1]:.1%} in one "
        f"step and to {named['accuracy, many steps'][-1]:.1%} in {settings.steps}.",
        f"Confidence in what is then predicted: {named['confidence, one step'][-1]:.0%} after one step, "
        f"{named['confidence, many steps'][-1]:.0%} after {settings.steps}.",
    ]
    if settings.target:
        one, many = (named[f"taken for the target, {how}"][-1] for how in ("one step", "many steps"))
        found.append(
            f"Taken for {settings.target}: {one:.1%} after one step, {many:.1%} after {settings.steps}."
        )
    return found


def _curves(named: dict[str, list[float]], settings: AttackSettings, bounds: Bounds, count: int) -> Lines:
    about = f" towards {settings.target}" if settings.target else ""
    unit = "most a pixel moves" if settings.norm == "inf" else "length of the change"
    x = np.array(named["eps"])
    return Lines(
        "attack",
        f"Accuracy and confidence under attack{about}",
        f"eps: {unit}, raw units ({bounds[0]:g} to {bounds[1]:g})",
        "share",
        {label: (x, np.array(values)) for label, values in named.items() if label not in ("change", "eps")},
        caption=f"{count} test images; many steps: {settings.steps}, each projected back onto the allowed change.",
    )


def _sheet(
    victim: _Victim,
    images: _Images,
    attacked: np.ndarray,
    bounds: Bounds,
    schema: Schema,
    eps: float,
    settings: AttackSettings,
) -> Images:
    """Clean images, what was added, and what came of it; first those that were right before and are wrong after."""
    before, after = (victim.probabilities(raw) for raw in (images.raw, attacked))
    right = before.argmax(axis=-1) == images.y
    fooled = right & (after.argmax(axis=-1) != images.y)
    chosen = np.argsort(~fooled, kind="stable")[:SHOWN]
    span = bounds[1] - bounds[0]
    clean, wrong = (_shown((raw[chosen] - bounds[0]) / span) for raw in (images.raw, attacked))
    change = wrong - clean
    times = 0.5 / max(float(np.abs(change).max()), 1e-9)
    names = [[f"{schema.classes[p[i].argmax()]} {p[i].max():.0%}" for i in chosen] for p in (before, after)]
    return Images(
        "attack-images",
        "Clean, change, attacked",
        np.clip(np.concatenate([clean, change * times + 0.5, wrong]), 0, 1),
        [*names[0], *[""] * len(chosen), *names[1]],
        columns=len(chosen),
        aligned=True,
        caption="Rows: the image and its prediction; the change (grey: none; "
        f"enlarged {short_number(times)} times); the sum of both and its prediction. {settings.steps} steps, eps = "
        f"{short_number(eps)} of raw pixels from {bounds[0]:g} to {bounds[1]:g}.",
    )


def _shown(images: np.ndarray) -> np.ndarray:
    """Images in grey or colour; of other channels the mean."""
    return images if images.shape[-1] in (1, 3) else images.mean(axis=-1, keepdims=True)


def _transfer(run: Run, images: _Images, settings: AttackSettings, eps: float, bounds: Bounds) -> Outcome:
    """Accuracy of every run on examples made against every run, and on the images as they are."""
    runs = [run, *(beside(run, name) for name in settings.others)]
    for other in runs[1:]:
        _check_alike(run, other)
    victims = [_Victim(one) for one in runs]
    threat = _threat(settings, eps, bounds, steps=settings.steps)
    made = [images.raw, *(victim.attacked(images, threat) for victim in victims)]
    matrix = np.array([[_measure(victim, images, raw)[0] for victim in victims] for raw in made])
    names = [one.id for one in runs]
    away = ~np.eye(len(runs), dtype=bool)
    worst = np.where(away, matrix[1:] - matrix[:1], np.inf)
    source, judge = np.unravel_index(worst.argmin(), worst.shape)
    return Outcome(
        [
            f"Transfer at eps = {short_number(eps)}: examples made without a look at the judging network leave "
            f"{matrix[1:][away].mean():.1%} accuracy on average, those made against it "
            f"{matrix[1:].diagonal().mean():.1%}; worst, {names[source]} against {names[judge]}: "
            f"{matrix[0, judge]:.1%} to {matrix[1:][source, judge]:.1%}."
        ],
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
                caption=f"{len(images.y)} test images, {settings.steps} steps, eps = {short_number(eps)} in raw units. "
                "Off the diagonal the attacker has not seen the network that judges.",
            )
        ],
        None,
        {"transfer": {"runs": names, "clean": matrix[0].tolist(), "accuracy": matrix[1:].tolist()}},
    )


def _check_alike(run: Run, other: Run) -> None:
    """Examples can go from one run to the other: same images, same classes."""
    facts: Sequence[tuple[str, Callable[[Schema], Any]]] = (
        ("images", lambda schema: schema.shape),
        ("levels of pixels", lambda schema: schema.levels),
        ("classes", lambda schema: schema.classes),
    )
    for what, of in facts:
        if of(other.schema) != of(run.schema):
            raise ArgumentError(
                f"others={other.id}: its {what} are {of(other.schema)}, those of {run.id} {of(run.schema)}",
                remedy="name runs of the same data",
            )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanPredict) and kinds.of(schema).spatial and targets.of(schema).one_class


probe = Probe(
    "Accuracy and confidence when every pixel may move a little (FGSM and PGD), also towards a class or between runs.",
    "a classifier of images",
    _applies,
    examine,
    AttackSettings,
    toy={"shares": (0.0, 0.1), "examples": 10, "steps": 2},
)

__all__ = ["AttackSettings", "examine", "probe"]
