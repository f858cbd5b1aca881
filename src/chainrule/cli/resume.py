"""`chainrule resume`: go on with a run from its newest checkpoint."""

from chainrule.cli.options import Json, Quiet, RunName, Settings


def resume(name: RunName, settings: Settings = None, json: Json = False, quiet: Quiet = False) -> None:
    """Go on with a run from its newest checkpoint.

    Training settings may change from here on, for example steps=5000 or optimizer.lr=1e-4.
    """
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find, place
    from chainrule.cli.progress import Unit, progress_printer
    from chainrule.cli.request import training
    from chainrule.cli.train import conclude, stopped_at_once
    from chainrule.train import Run
    from chainrule.train import resume as go_on

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN")
    given = dict(words.settings)
    run = Run.open(find(wanted, place(given.pop("runs", None))))
    overrides = training(given, also=["runs"])
    tell = progress_printer(Unit.of(run.schema, run.skeleton()), machine=json, quiet=quiet)
    try:
        done = go_on(run, listener=tell, **overrides)
    except KeyboardInterrupt:
        tell.close()
        stopped_at_once(run.path, json=json, quiet=quiet)
        raise
    finally:
        tell.close()
    conclude(done, done.skeleton(), json=json, quiet=quiet)


__all__ = ["resume"]
