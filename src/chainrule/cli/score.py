"""`chainrule score`: the numbers that judge a trained model."""

from collections.abc import Mapping

from chainrule.cli.options import Json, RunName, Settings

_OWN = ("runs", "split", "stride", "n")


def score(name: RunName, settings: Settings = None, json: Json = False) -> None:
    """Judge a trained model on held-out data.

    Settings: split=test (or val, or train), n=5000 (so many examples, drawn at random; unless told all of them, and
    2048 where a bound is estimated), stride=32 (texts: how far windows are apart), runs=DIR.
    """
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find, runs_folder
    from chainrule.cli.output import emit, table
    from chainrule.cli.progress_line import progress_line
    from chainrule.cli.settings import unknown
    from chainrule.core.formatting import short_number
    from chainrule.train import Run

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN")
    for word in words.settings:
        if word not in _OWN:
            raise unknown(word, _OWN, "settings of score: split=test, n=5000, stride=32, runs=DIR")
    stride, n = (_whole(words.settings, *one) for one in (("stride", "tokens"), ("n", "examples")))
    run = Run.open(find(wanted, runs_folder(words.settings.get("runs"))))
    with progress_line(silent=json):
        found = run.score(words.settings.get("split", "test"), stride=stride, n=n)
    if json:
        emit({"metrics": {name: metric.to_json() for name, metric in found.items()}})
        return
    rows = [
        [name, _shown(name, m.value), "" if m.stderr is None else f"± {short_number(m.stderr)}", m.unit]
        for name, m in found.items()
    ]
    table(["metric", "value", "error", "unit"], rows)


def _shown(name: str, value: float) -> str:
    from chainrule.core.formatting import short_number

    return f"{value:,.0f}" if name == "examples" else short_number(value)


def _whole(given: Mapping[str, str], name: str, of: str) -> int | None:
    from chainrule.core.errors import ArgumentError

    text = given.get(name)
    if text is not None and not text.isdecimal():
        raise ArgumentError(f"{name}={text}: {name} must be a whole number of {of}")
    return None if text is None else int(text)


__all__ = ["score"]
