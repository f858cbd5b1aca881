"""Training from the command line, for `train` and `resume`: progress, report, and what can be done next."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import typer

if TYPE_CHECKING:
    from chainrule.data.schema import Schema
    from chainrule.models.protocol import Model
    from chainrule.report.progress import Unit
    from chainrule.train import Run
    from chainrule.train.events import Event, Listener


def _nothing(run: Any) -> None:
    del run


@final
@dataclass(frozen=True)
class Handling:
    """What differs between the runs of models and those of agents, once they train."""

    unit: "Unit"
    """What is counted per second."""
    open: "Callable[[Path], Any]"
    """From the folder to the run."""
    report: "Callable[[Any], Path]"
    """Writes the report of a run."""
    next: "Callable[[Any], list[str]]"
    """Commands that put what was trained to work."""
    compare: "Callable[[Any], None]" = _nothing
    """Before the report is written: compares a run with others that it has to beat."""


def handling_models(
    schema: "Schema", model: "Model", *, json: bool, quiet: bool, baselines: bool = False
) -> Handling:
    """How runs of a model are handled; with `baselines`, one that adapts is compared with what it has to beat."""
    from chainrule import report
    from chainrule.cli.baselines import compare
    from chainrule.report.progress import Unit
    from chainrule.train import Run

    return Handling(
        Unit.of(schema, model),
        Run.open,
        report.write,
        lambda run: what_next(run, model),
        lambda run: compare(run, anew=baselines, json=json, quiet=quiet),
    )


def train_and_report(
    training: "Callable[[Listener], Any]",
    path: Path,
    handling: Handling,
    *,
    json: bool,
    quiet: bool,
    data_told: bool = False,
) -> None:
    """Train in the folder `path`, write the report, say what can be done next; leaves with 130 if interrupted.

    `data_told` says that the line about the data has been printed.
    """
    import jax

    from chainrule.api import with_report
    from chainrule.cli.memory import keep_freed
    from chainrule.cli.output import silence
    from chainrule.cli.progress import progress_printer

    if jax.default_backend() == "cpu":
        keep_freed()
    printer = progress_printer(handling.unit, machine=json, quiet=quiet, data_told=data_told)

    def write(run: Any) -> None:
        printer.close()
        handling.compare(run)
        _write_report(run, handling, json=json, quiet=quiet)

    unheard: list[OSError] = []

    def tell(event: "Event") -> None:
        try:
            printer(event)
        except (
            OSError
        ) as error:  # the reader left, the terminal was closed, the disk behind the output is full
            silence()
            unheard.append(error)
            raise

    def train(listener: "Listener") -> Any:
        try:
            return training(listener)
        except OSError as error:
            if error not in unheard:
                raise
            run = handling.open(path)  # trained until then and saved, as after a signal
            _stopped_unheard(run, error)
            return run

    try:
        run = with_report(train, tell, opened=handling.open, write=write)
    except KeyboardInterrupt:
        printer.close()
        _stopped_at_once(path, handling, json=json, quiet=quiet)
        raise
    finally:
        printer.close()
    _conclude(run, handling, json=json, quiet=quiet)


def _write_report(run: Any, handling: Handling, *, json: bool, quiet: bool) -> None:
    from chainrule.cli.output import emit, say
    from chainrule.cli.progress_line import progress_line

    with progress_line(silent=json or quiet):
        page = handling.report(run)
    if json:
        emit({"event": "report", "path": page})
    elif not quiet:
        say("report", str(page))
        for name in ("samples", "film"):
            for sheet in sorted((run.path / "plots").glob(f"{name}.*")):
                say(name, str(sheet))


def what_next(run: "Run", model: "Model") -> list[str]:
    """Commands that put a trained model to work."""
    from chainrule.cli.baselines import open_question
    from chainrule.cli.folders import handle
    from chainrule.data import targets
    from chainrule.models.protocol import (
        CanEncode,
        CanForecast,
        CanPredict,
        CanSample,
        CanSeparate,
        CanTranslate,
    )

    verbs = [*(["sample"] if isinstance(model, CanSample) else []), "score", "probe"]
    words = [f"chainrule {verb} {handle(run.path)}" for verb in verbs]
    if isinstance(model, CanPredict | CanForecast | CanTranslate | CanSeparate):
        words.insert(0, f"chainrule predict {handle(run.path)} FILE")
    elif isinstance(model, CanEncode) and targets.of(run.schema).has_identity:
        words.insert(0, f"chainrule predict {handle(run.path)} FILE gallery=FOLDER")
    if open_question(run):
        words.insert(0, f"chainrule probe {handle(run.path)} baselines")
    return words


def _conclude(run: Any, handling: Handling, *, json: bool, quiet: bool) -> None:
    from chainrule.cli.output import say

    interrupted = run.status["status"] == "interrupted"
    if not (json or quiet or interrupted):  # how to go on was said when it stopped
        say("next", "   ·   ".join(handling.next(run)))
    _last_line(run, json=json, quiet=quiet)
    if interrupted:
        raise typer.Exit(130)


def _stopped_unheard(run: Any, error: OSError) -> None:
    """What can still be said when standard output is gone."""
    from chainrule.cli.folders import handle
    from chainrule.cli.output import complain

    why = (error.strerror or str(error)).lower()
    complain(
        f"output cannot be written ({why}): the run is {run.status['status']} and saved at step {run.status['step']}\n"
        f"go on with it: chainrule resume {handle(run.path)}"
    )


def _stopped_at_once(path: Path, handling: Handling, *, json: bool, quiet: bool) -> None:
    """What is left after a second Ctrl-C: everything up to the newest checkpoint."""
    from chainrule.cli.folders import handle
    from chainrule.cli.output import say

    if not (path / "config.yaml").exists():
        return
    run = handling.open(path)
    _last_line(run, json=json, quiet=quiet)
    if not json and not quiet:
        kept = f"step {run.checkpoints[-1]}" if run.checkpoints else "none yet"
        say("stopped", f"at once   newest checkpoint: {kept}")
        say("next", f"chainrule resume {handle(path)}")


def _last_line(run: Any, *, json: bool, quiet: bool) -> None:
    from chainrule.cli.output import emit, show

    status = run.status
    if json:
        last = {"run": run.id, "path": run.path.resolve(), "status": status["status"]}
        emit({**last, "step": status["step"], "best": status["best"]})
    elif quiet:
        show(run.path)


__all__ = ["Handling", "handling_models", "train_and_report"]
