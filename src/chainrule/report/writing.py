"""The report of a run: one self-contained page and its pictures, written from the run folder.

Everything it says comes from the plain files of the run; where a part cannot be made (no checkpoint, data that have
moved), the page says why in that place. A run that was interrupted or diverged has a report like any other.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx

from chainrule import models
from chainrule.core.errors import ChainruleError
from chainrule.core.formatting import duration, measured, number
from chainrule.models.protocol import (
    CanForecast,
    CanPredict,
    CanSample,
    CanSeparate,
    CanTranslate,
    HasOwnTraining,
    Model,
    parameter_count,
)
from chainrule.nn.modes import mode
from chainrule.report import page
from chainrule.report.gallery import PictureGroup, groups, judged_split
from chainrule.report.pieces import (
    device,
    draw_all,
    environment,
    footer,
    group_section,
    score_card,
    state_notices,
)
from chainrule.report.style import one_color_per_series
from chainrule.train import Metric, Run
from chainrule.train.files import write_atomic
from chainrule.train.folder import decisive, read_data
from chainrule.train.generation.measures import Beside, beside_real
from chainrule.train.naming import handle, recipe_word
from chainrule.train.remarks import remarks
from chainrule.train.scores import by_item
from chainrule.train.verdicts import adapts, has_answers, transfer_verdict

_MOST_SKIPPED = 200
_MOST_ROWS = 100
"""Classes, labels or outputs whose scores are shown one by one."""
_NO_ANSWERS = "the other domain has no targets to judge by"
_NAMES = {
    "train_loss": "loss on training examples",
    "overfitting_gap": "overfitting gap",
    "precision": "precision, mean over classes",
    "recall": "recall, mean over classes",
    "f1": "F1, mean over classes",
    "roc_auc": "area under the ROC curve",
    "nll": "negative log-likelihood",
    "nll_bound": "negative log-likelihood, at most",
    "nll_estimate": "negative log-likelihood, estimated",
    "kl_from_data": "KL divergence of the data from it",
    "bits_per_dim": "bits per dimension",
    "bits_per_dim_bound": "bits per dimension, at most",
    "bits_per_dim_estimate": "bits per dimension, estimated",
    "exact_match": "all labels right",
    "label_accuracy": "labels right",
    "average_precision": "average precision, mean over labels",
    "si_sdr": "signal to distortion (SI-SDR)",
    "si_sdr_improvement": "improvement over the mixture",
    "si_sdr_mixture": "the mixture itself",
    "si_sdr_ideal_ratio": "ceiling: ideal ratio mask",
    "si_sdr_ideal_binary": "ceiling: ideal binary mask",
    "si_sdr_ideal_amplitude": "ceiling: ideal amplitude mask",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "r2": "R²",
    "top_5_accuracy": "top-5 accuracy",
}


def write(run: Run) -> Path:
    """Write `plots/*.svg` (`*.gif` for films) and `report.html` into the folder of a run; the path of the page."""
    found = groups(run)
    draw_all([picture for group in found for picture in group.pictures], run.path / "plots", _about(run))
    path = run.path / "report.html"
    write_atomic(path, _page(run, found))
    return path


def _about(run: Run) -> dict[str, Any]:
    step = run.step if run.checkpoints else run.status["step"]
    return {"run": run.id, "step": step, "seed": run.settings.seed, "settings": run.config}


def _page(run: Run, found: Sequence[PictureGroup]) -> str:
    record = read_data(run.path)
    model = _model(run)
    header = [
        "<header>",
        f"<h1>{page.say(run.id)}</h1>",
        _lead(run, model, record),
        *state_notices(run.status, run.step if run.checkpoints else None),
        "</header>",
    ]
    with one_color_per_series():
        pictures = [group_section(group) for group in found]
    main = [
        "<main>",
        _scores(run),
        *([_adaptation(run)] if adapts(run.config) else []),
        *pictures,
        _settings(run, record),
        _again(run, model, record),
        _data(record),
        "</main>",
    ]
    return page.document(f"{run.id} · Chainrule", [*header, *main, footer("data.json")])


def _model(run: Run) -> Model | None:
    """The structure of the model; nothing for a class of the user's own that was not handed in."""
    try:
        return run.skeleton()
    except ChainruleError:
        return None


# ---------------------------------------------------------------------- the top


def _lead(run: Run, model: Model | None, record: Mapping[str, Any]) -> str:
    status = run.status
    name = run.config["model"]["name"] or (models.title(model) if model is not None else "A model")
    size = "" if model is None else f" with {parameter_count(model):,} parameters"
    sentence = (
        f"<strong>{page.say(name)}</strong>{size}, trained on <strong>{page.say(record['name'])}</strong> "
        f"({page.say(record['summary'])}) for {_steps(model, status['step'])} in {duration(status['seconds'])} "
        f"on {page.say(device(run.path))}."
    )
    best = status["best"]
    if best:
        name = decisive(best)
        value = f"{page.say(name)} {number(best[name])}"
        alone = status["step"] == 1
        sentence += (
            f" Validation {value}." if alone else f" Best validation {value} at step {best['step']:,}."
        )
    in_mode = "" if model is None else mode(eqx.nn.inference_mode(model))
    if in_mode:
        sentence += f" Scores and pictures are those of {page.say(in_mode)}."
    return f'<p class="lead">{sentence}</p>'


def _steps(model: Model | None, count: int) -> str:
    """How long training was: steps of an optimiser, or iterations of a model with a way of its own."""
    word = "iteration" if isinstance(model, HasOwnTraining) else "step"
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _scores(run: Run) -> str:
    try:
        split = judged_split(run)
        scores, count = run.score(split), len(run.data.split(split))
        judged = scores.pop("examples", None)
    except ChainruleError as error:
        return page.section("Scores", page.notice("There are no scores.", str(error)))
    names = {"test": "test", "val": "validation", "train": "training"}
    some = f"{judged.value:,.0f} of " if judged is not None and judged.value < count else ""
    whole, each = by_item(scores)
    whole, beside = beside_real(whole)
    words = remarks(scores)
    return page.section(
        f"On {some}{count:,} {names[split]} examples",
        page.numbers({_named(name): score_card(metric) for name, metric in whole.items()}),
        *([page.notice(*words)] if words else []),
        *([_beside(beside)] if beside else []),
        *([_each(each)] if each else []),
    )


def _adaptation(run: Run) -> str:
    """Whether the other domain was adapted to with profit, or that nobody knows."""
    title, several = "Did adaptation help?", f"chainrule probe {handle(run.path)} baselines"
    found = transfer_verdict(run.path)
    if found is None:
        return page.section(title, *_not_compared(run, several))
    rows: list[list[str | float | int]] = [[name, f"{share:.1%}"] for name, share in found.accuracy.items()]
    length = f" after {found.steps:,} steps" if found.steps else ""
    verdict = f"{found.words[:1].upper()}{found.words[1:]}{length}."
    body = [page.grid(["training", "right in the other domain"], rows)] if rows else []
    if found.seeds == 1:
        chance = (
            "The interval is that of the test examples. How much other seeds differ takes more trainings."
        )
        body += [f"<p>{chance}</p>", page.commands({"Compare several seeds": several})]
    shown = page.notice(verdict) if found.words.startswith("negative") else f"<p>{page.say(verdict)}</p>"
    return page.section(title, shown, *body)


def _not_compared(run: Run, several: str) -> list[str]:
    """Why it is not known whether adaptation helped, and what would tell."""
    why, built = (
        "this run was not compared with others",
        not (run.config["data"] and run.config["target"]["data"]),
    )
    with contextlib.suppress(ChainruleError):  # where the data are gone, the command says so
        if not has_answers(run.data):
            return [page.notice(f"Nothing is known of whether adaptation helped: {_NO_ANSWERS}.")]
    known = page.notice(f"Nothing is known yet of whether adaptation helped: {why}.")
    return [known, *([] if built else [page.commands({"Compare it": several})])]


def _beside(beside: Mapping[str, Beside]) -> str:
    """Numbers of samples with those of real examples beside them."""
    rows: list[list[str | float | int]] = [
        [
            _named(name),
            measured(ours.value, ours.stderr),
            measured(real.value, real.stderr),
            ", ".join(filter(None, (ours.unit, ours.kind))),
        ]
        for name, (ours, real) in beside.items()
    ]
    basis = next(iter(beside.values())).samples.basis
    title = f"Samples beside real examples: {basis}"
    return page.fold(title, page.grid(["", "samples", "real examples", ""], rows))


def _named(measure: str) -> str:
    return _NAMES.get(measure, measure.replace("_", " "))


def _each(each: Mapping[str, Mapping[str, Metric]]) -> str:
    """A row of numbers for each class, label or output."""
    measures = list(dict.fromkeys(measure for metrics in each.values() for measure in metrics))
    rows: list[list[str | float | int]] = [
        [name, *(metrics[m].value if m in metrics else math.nan for m in measures)]
        for name, metrics in list(each.items())[:_MOST_ROWS]
    ]
    heads = [_named(measure).partition(",")[0] for measure in measures]  # no mean is meant here
    left = f", the first {_MOST_ROWS}" if len(each) > _MOST_ROWS else ""
    return page.fold(f"One by one ({len(each):,}{left})", page.grid(["", *heads], rows))


# ---------------------------------------------------------------------- the small print


def _settings(run: Run, record: Mapping[str, Any]) -> str:
    config = run.config
    name = config["model"]["name"]
    about = ""
    if name in models.names():
        entry = models.entry(name)
        about = f"<p>{page.say(entry.summary)}</p>\n<p><cite>{page.say(entry.citation)}</cite></p>\n"
    return page.section(
        "Settings",
        page.fold("Model", about + page.pairs({"name": name, **config["model"]["settings"]})),
        page.fold("Training", page.pairs(config["train"]), long=True),
        page.fold("Data", page.pairs({**config["data"], "examples": record["counts"]})),
        page.fold("Environment", page.pairs(environment(run.path)), long=True),
    )


def _again(run: Run, model: Model | None, record: Mapping[str, Any]) -> str:
    """What to type to repeat the run, go on with it and use it."""
    name = handle(run.path)
    own, built = run.config["model"]["name"] is None, not run.config["data"]
    more = [f"{what}={what}" for what, needed in (("model", own), ("data", built)) if needed]
    opened = f"run = cr.Run.open({', '.join([repr(str(run.path)), *more])})"
    split = "test" if record["counts"]["test"] else "val"
    python = {"Use it in Python": f'import chainrule as cr\n\n{opened}\nrun.score("{split}")'}
    if more:
        return page.section("Again", page.commands(python))
    state, total = run.status["status"], run.status["total"]
    change = {
        "done": f" steps={2 * total}",
        "diverged": f" optimizer.lr={run.settings.optimizer.lr / 2:g}",
    }.get(state, "")
    lines = {
        "Repeat the run": f"chainrule train {recipe_word(run.path)}",
        "Go on with it": f"chainrule resume {name}{change}",
        "Score it": f"chainrule score {name}",
    }
    if isinstance(model, CanPredict | CanForecast | CanSeparate | CanTranslate):
        lines["Predict for new data"] = f"chainrule predict {name} FILE"
    if isinstance(model, CanSample):
        lines["Draw samples"] = f"chainrule sample {name} n=64"
    return page.section("Again", page.commands({**lines, **python}))


def _data(record: Mapping[str, Any]) -> str:
    skipped = [[str(part) for part in pair] for pair in record["skipped"]]
    facts = f"<p>SHA-256 <code>{page.say(record['hash'])}</code></p>"
    if not skipped:
        return page.section("Data", facts, "<p>Nothing was left out.</p>")
    some = page.grid(["left out", "why"], skipped[:_MOST_SKIPPED])
    rest = (
        f"<p>The first {_MOST_SKIPPED} are shown; all are in <code>data.json</code>.</p>"
        if len(skipped) > _MOST_SKIPPED
        else ""
    )
    return page.section(
        "Data", facts, page.fold(f"{len(skipped):,} files or rows were left out", some + rest, long=True)
    )


__all__ = ["write"]
