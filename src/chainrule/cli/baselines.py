"""The end of a training for another domain: did adaptation help?

A run of `chainrule train` is compared with what there would be without it, unless `baselines=false`: the source alone,
the few labelled target examples alone, and all targets, each trained once with the settings, the seed and the steps of
the run, as the probe `baselines` does with one seed. Where that was not done, it is said that nothing is known.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainrule.cli.training_request import TrainingRequest
    from chainrule.data.dataset import Data
    from chainrule.train import Run

_LABEL = "compared"


def planned(request: "TrainingRequest", data: "Data", *, json: bool, quiet: bool) -> bool:
    """Whether the baselines of this training follow it; tells how many trainings that are."""
    from chainrule.cli.output import emit, say
    from chainrule.train.verdicts import has_answers

    target, other = request.target, data.other
    if target is None or other is None or not target.baselines or not request.entry.adapts(request.model):
        return False
    if request.start is not None or not has_answers(data):  # they would not begin where the run began
        return False
    few = [f"the {data.labels} labels of {other.name} alone"] if data.labels else []
    kinds = [f"{data.name} alone", *few, f"all labels of {other.name}"]
    if json:
        emit({"event": "baselines", "trainings": kinds})
    elif not quiet:
        many = f"{len(kinds)} trainings of as many steps follow: {', '.join(kinds)}"
        say(_LABEL, f"afterwards   {many}   without them: baselines=false")
    return True


def compare(run: "Run", *, anew: bool, json: bool, quiet: bool) -> None:
    """Compare a run that is done with its baselines, trained anew where that is wanted, and tell the verdict."""
    from chainrule.cli.output import emit, say
    from chainrule.train.verdicts import adapts, transfer_verdict

    if not adapts(run.config) or run.status["status"] != "done":
        return
    problem = _train(run, silent=json or quiet) if anew else ""
    found = transfer_verdict(run.path)
    if json:
        accuracy = {} if found is None else found.accuracy
        words = None if found is None else found.words
        emit({"event": "compared", "verdict": words, "accuracy": accuracy, "problem": problem})
    elif not quiet:
        if problem:
            say(_LABEL, problem)
        say(
            _LABEL,
            "not yet: nothing is known of whether adaptation helped" if found is None else found.sentence(),
        )


def _train(run: "Run", *, silent: bool) -> str:
    """Train the baselines and keep what came out beside the run; what went wrong, if anything did."""
    from chainrule.cli.folders import handle
    from chainrule.cli.progress_line import progress_line
    from chainrule.explain import probes
    from chainrule.report import Chapter, write_album

    settings: dict[str, Any] = {"seeds": 1}
    try:
        with progress_line(silent=silent):
            outcome = probes.examine("baselines", run, **settings)
        tables = [outcome.table] if outcome.table is not None else []
        summary = probes.get("baselines").summary
        shown = [*tables, *outcome.pictures]
        write_album(
            run.path / "probes" / "baselines",
            f"baselines: {run.id}",
            f"Step {run.step:,} of {run.id}, beside trainings of its baselines.",
            [Chapter("baselines", summary, outcome.findings, shown, outcome.numbers)],
            settings={"run": run.id, "step": run.step, "baselines": settings},
            again={"Compare several seeds": f"chainrule probe {handle(run.path)} baselines"},
        )
    except KeyboardInterrupt:
        return "stopped before the end"
    except Exception as error:  # whatever it is must not cost the report of what was trained
        return f"this failed: {type(error).__name__}: {error}".splitlines()[0]
    return ""


def open_question(run: "Run") -> bool:
    """Whether a run adapts to a domain whose labels could tell if that helped, and was not compared yet."""
    from chainrule.core.errors import ChainruleError
    from chainrule.train.verdicts import adapts, has_answers, transfer_verdict

    try:
        return adapts(run.config) and transfer_verdict(run.path) is None and has_answers(run.data)
    except ChainruleError:  # the data are gone
        return False


__all__ = ["compare", "open_question", "planned"]
