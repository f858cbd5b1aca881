"""`chainrule resume`: go on with a run from its newest checkpoint."""

from chainrule.cli.options import Json, Quiet, Settings, WholeRunName


def resume(name: WholeRunName, settings: Settings = None, json: Json = False, quiet: Quiet = False) -> None:
    """Go on with a run from its newest checkpoint.

    Training settings may change from here on, for example steps=5000 or optimizer.lr=1e-4. callbacks=FILE.py:FUNCTION
    names functions of your own again; their file is run.
    """
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find_exact, runs_folder
    from chainrule.cli.training import train_and_report
    from chainrule.cli.training_request import callbacks, training
    from chainrule.train import Run
    from chainrule.train import resume as go_on

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN")
    given = dict(words.settings)
    run = Run.open(find_exact(wanted, runs_folder(given.pop("runs", None))))
    asked = callbacks(given.pop("callbacks", None))
    overrides = training(given, also=["runs", "callbacks"])
    train_and_report(
        lambda listener: go_on(run, listener=listener, callbacks=asked, **overrides),
        run.path,
        run.schema,
        run.skeleton(),
        json=json,
        quiet=quiet,
    )


__all__ = ["resume"]
