"""`chainrule score`: the numbers that judge a trained model."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chainrule.cli.adapters import USAGE, WORDS
from chainrule.cli.options import Json, RunName, Settings

if TYPE_CHECKING:
    from chainrule.data.dataset import Data
    from chainrule.train import Metric
    from chainrule.train.generation.measures import Beside
    from chainrule.train.scoring import Scores

OWN = (
    "runs",
    "split",
    "data",
    "text",
    "stride",
    "n",
    "positive",
    "top",
    "calibrated",
    "crf",
    "k",
    "samples",
    "against",
    *WORDS,
)
_HOW = (
    "settings of score: split=test, data=OTHER, text=TEXT, n=5000, stride=32, positive=CLASS, top=3, calibrated=true, "
    f"crf=true, k=5000, samples=1000, against=RUN, {USAGE}, runs=DIR"
)
_SHOWN = 30
"""Classes, labels or outputs whose scores are shown one by one."""


def score(name: RunName, settings: Settings = None, json: Json = False) -> None:
    """Judge a trained model on held-out data, or on other data.

    Settings: split=test (or val, or train; unless told test, and val where there is no test split), data=OTHER (a file,
    folder or name: all of it, or its own test part, with the scaling and the classes of training; data.bad=skip and the
    other options of the source as in training), text="a text" (instead of data, for models of texts; of any length),
    n=5000 (so many examples, drawn at random; unless told all of them, and 2048 where a bound is estimated), stride=32
    (texts: how far windows are apart), positive=CLASS (two classes: the one that is looked for; unless told the
    second), top=3 (classes: how often the true one is among the three likeliest; top=2,3 for several), calibrated=true
    (classes: how far probabilities can be trusted at a temperature fitted on the validation examples), crf=true
    (masks: refined by a conditional random field), k=5000 (models
    with a latent variable: codes by which the likelihood of an example is estimated, 100 unless told; flows of data
    with levels: draws of the noise between these for a tighter bound), samples=500 (models that draw examples: how many
    are compared with real ones; unless told as many as are held out, 1000 at most), against=RUN (or RUN,RUN: judged by
    the same examples, and their numbers beside these), lora=RUN or lora=FILE.safetensors (adapters of other runs to
    judge it with, lora_strength=1 times), runs=DIR. Of agents: episodes=100 (by which they are judged), seed=1 (other
    episodes), runs=DIR.
    """
    from chainrule.cli import agents
    from chainrule.cli.adapters import with_adapters
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find, runs_folder
    from chainrule.cli.output import emit, say
    from chainrule.cli.progress_line import progress_line
    from chainrule.cli.score_against import check_comparable, check_same_examples, others
    from chainrule.cli.score_against import show as show_beside_each_other
    from chainrule.cli.settings import guess, unknown
    from chainrule.core.quoting import plain
    from chainrule.train import Run
    from chainrule.train.remarks import remarks

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN", spare="data")
    given = words.settings
    folder = runs_folder(given.get("runs"))
    if agents.holds(path := find(wanted, folder)):
        agents.score(path, given, json=json)
        return
    options = {word[5:]: guess(text) for word, text in given.items() if word.startswith("data.")}
    for word in given:
        if word not in OWN and not (word.startswith("data.") and "data" in given):
            raise unknown(word, OWN, _HOW)
    asked = _asked(given)
    run = with_adapters(Run.open(path), given, folder)
    beside = others(run, given["against"], folder) if "against" in given else {}
    elsewhere = bool({"data", "text"} & given.keys())
    if not elsewhere:
        check_same_examples(run, beside)
    with progress_line(silent=json):
        wanted_text = {"text": given["text"]} if "text" in given else {}
        split = given.get("split")
        untested = split is None and not elsewhere and not len(run.data.test)
        part = "val" if untested else split

        def judged(one: Run) -> "tuple[Scores, Data | None]":
            other = one.other(given.get("data"), **wanted_text, **options) if elsewhere else None
            return one.score(part, data=other, **asked), other

        found, other = judged(run)
        every = {run.id: found} | {name: judged(one)[0] for name, one in beside.items()}
    check_comparable(every)
    if json:
        emit(
            {"metrics": to_json(found)}
            | ({"split": "val"} if untested else {})
            | ({} if other is None else {"data": other.name, "scored": described(other)})
            | ({"against": {name: to_json(every[name]) for name in beside}} if beside else {})
        )
        return
    if other is not None:
        say("scored", f"{other.name}   {described(other)}, prepared as the training data were")
    if untested:
        say("scored", "the validation split: the data have no test split")
    show_beside_each_other(every) if beside else show(found)
    for name, scores in every.items():
        for remark in remarks(scores):
            say("note", f"{plain(name)}: {remark}" if beside else remark)


def _asked(given: Mapping[str, str]) -> dict[str, Any]:
    """What the words say of how to judge, as arguments of `Run.score`."""
    from chainrule.cli.settings import yes_or_no

    counts = (("stride", "tokens"), ("n", "examples"), ("k", "codes"), ("samples", "examples to draw"))
    return {
        **{name: _whole(given, name, of) for name, of in counts},
        "positive": given.get("positive"),
        "top": _wholes(given.get("top", "")),
        "calibrated": yes_or_no("calibrated", given),
        "crf": yes_or_no("crf", given),
    }


def to_json(found: "Mapping[str, Metric]") -> dict[str, Any]:
    """Scores as plain values."""
    return {name: metric.to_json() for name, metric in found.items()}


def described(other: "Data") -> str:
    """What other data hold, in a few words."""
    from chainrule.data import kinds

    kind = kinds.of(other.schema)
    return kind.describe(other.schema, kind.size(other.schema, other.test))


def show(found: "Mapping[str, Metric]") -> None:
    """Scores as a table, and those of each class, label or output as another below it."""
    from chainrule.cli import output
    from chainrule.core.formatting import short_number
    from chainrule.train.generation.measures import beside_real
    from chainrule.train.scores import by_item

    whole, each = by_item(found)
    whole, beside = beside_real(whole)
    rows = [
        [
            name,
            _shown(name, m.value),
            "" if m.stderr is None else f"± {short_number(m.stderr)}",
            m.unit,
            m.kind,
        ]
        for name, m in whole.items()
    ]
    columns = 5 if any(m.kind for m in whole.values()) else 4
    output.table(["metric", "value", "error", "unit", "is"][:columns], [row[:columns] for row in rows])
    if beside:
        _show_beside(beside)
    if not each:
        return
    measures = list(dict.fromkeys(measure for metrics in each.values() for measure in metrics))
    output.show()
    rows = [
        [name, *(_shown(m, metrics[m].value) if m in metrics else "" for m in measures)]
        for name, metrics in list(each.items())[:_SHOWN]
    ]
    output.table(["of each", *measures], rows)
    if len(each) > _SHOWN:
        output.show(f"and {len(each) - _SHOWN:,} more: --json gives all")


def _show_beside(beside: "Mapping[str, Beside]") -> None:
    """Numbers of samples with those of real examples beside them."""
    from chainrule.cli import output
    from chainrule.core.formatting import short_number

    rows = [
        [
            name,
            short_number(ours.value),
            "" if ours.stderr is None else f"± {short_number(ours.stderr)}",
            short_number(real.value),
            "" if real.stderr is None else f"± {short_number(real.stderr)}",
            ", ".join(filter(None, (ours.unit, ours.kind))),
        ]
        for name, (ours, real) in beside.items()
    ]
    output.show()
    output.table(["samples beside real", "samples", "error", "real", "error", ""], rows)
    output.show(f"on the basis of {next(iter(beside.values())).samples.basis}")


def _shown(name: str, value: float) -> str:
    from chainrule.core.formatting import short_number

    return f"{value:,.0f}" if name in ("examples", "samples", "support") else short_number(value)


def _wholes(text: str) -> tuple[int, ...]:
    """Numbers of likeliest classes."""
    from chainrule.core.errors import ArgumentError

    words = [word for word in text.split(",") if word]
    for word in words:
        if not word.isdecimal() or int(word) < 1:
            raise ArgumentError(
                f"top={text}: top must be whole numbers of classes, for example top=3 or top=1,3"
            )
    return tuple(map(int, words))


def _whole(given: Mapping[str, str], name: str, of: str) -> int | None:
    from chainrule.core.errors import ArgumentError

    text = given.get(name)
    if text is not None and not text.isdecimal():
        raise ArgumentError(f"{name}={text}: {name} must be a whole number of {of}")
    return None if text is None else int(text)


__all__ = ["described", "score", "show"]
