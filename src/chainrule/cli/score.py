"""`chainrule score`: the numbers that judge a trained model."""

from chainrule.cli.options import Json, RunName, Settings


def score(name: RunName, settings: Settings = None, json: Json = False) -> None:
    """Judge a trained model on held-out data.

    Settings: split=test (or val, or train), stride=32 (texts: how far windows are apart), runs=DIR.
    """
    from chainrule.cli.folders import find, place
    from chainrule.cli.output import emit, number, table
    from chainrule.cli.settings import unknown
    from chainrule.cli.words import parse, take
    from chainrule.core.errors import ArgumentError
    from chainrule.train import Run

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN")
    for word in words.settings:
        if word not in ("runs", "split", "stride"):
            known = "settings of score: split=test, stride=32, runs=DIR"
            raise unknown(word, ["runs", "split", "stride"], known)
    stride = words.settings.get("stride")
    if stride is not None and not stride.isdecimal():
        raise ArgumentError(f"stride={stride}: stride must be a whole number of symbols")
    run = Run.open(find(wanted, place(words.settings.get("runs"))))
    found = run.score(words.settings.get("split", "test"), stride=None if stride is None else int(stride))
    if json:
        emit({"metrics": {name: metric.to_json() for name, metric in found.items()}})
        return
    rows = [
        [name, number(m.value), "" if m.stderr is None else f"± {number(m.stderr)}", m.unit]
        for name, m in found.items()
    ]
    table(["metric", "value", "error", "unit"], rows)


__all__ = ["score"]
