"""`chainrule resume`: go on with a run from its newest checkpoint."""

from chainrule.cli.options import Json, Quiet, Settings, WholeRunName


def resume(name: WholeRunName, settings: Settings = None, json: Json = False, quiet: Quiet = False) -> None:
    """Go on with a run from its newest checkpoint.

    Training settings may change from here on, for example steps=5000 or optimizer.lr=1e-4. callbacks=FILE.py:FUNCTION
    names functions of your own again; their file is run.
    """
    from chainrule.cli import agents
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find_exact, runs_folder
    from chainrule.cli.training import handling_models, train_and_report
    from chainrule.cli.training_request import callbacks, training
    from chainrule.train import Run
    from chainrule.train import resume as go_on

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN")
    given = dict(words.settings)
    path = find_exact(wanted, runs_folder(given.pop("runs", None)))
    if agents.holds(path):
        agents.resume(path, given, json=json, quiet=quiet)
        return
    run = Run.open(path)
    asked = callbacks(given.pop("callbacks", None))
    overrides = training(given, also=["runs", "callbacks"])
    train_and_report(
        lambda listener: go_on(run, listener=listener, callbacks=asked, **overrides),
        run.path,
        handling_models(run.schema, run.skeleton(), json=json, quiet=quiet),
        json=json,
        quiet=quiet,
    )


__all__ = ["resume"]
