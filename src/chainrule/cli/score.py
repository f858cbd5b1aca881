"""`chainrule score`: the numbers that judge a trained model."""

from chainrule.cli.options import Json, RunName, Settings


def score(name: RunName, settings: Settings = None, json: Json = False) -> None:
    """Judge a trained model on held-out data.

    Settings: split=test (or val, or train), runs=DIR.
    """
    from chainrule.cli.folders import find, place
    from chainrule.cli.output import emit, number, table
    from chainrule.cli.settings import unknown
    from chainrule.cli.words import parse, take
    from chainrule.train import Run

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN")
    for word in words.settings:
        if word not in ("runs", "split"):
            raise unknown(word, ["runs", "split"], "settings of score: split=test, runs=DIR")
    run = Run.open(find(wanted, place(words.settings.get("runs"))))
    found = run.score(words.settings.get("split", "test"))
    if json:
        emit({"metrics": {name: metric.to_json() for name, metric in found.items()}})
        return
    rows = [
        [name, number(m.value), "" if m.stderr is None else f"± {number(m.stderr)}", m.unit]
        for name, m in found.items()
    ]
    table(["metric", "value", "error", "unit"], rows)


__all__ = ["score"]
