"""One picture of every kind, and of every corner a picture can be pushed into."""

import numpy as np

from chainrule.core.pictures import (
    AttentionMaps,
    Bars,
    Film,
    Footnote,
    Heatmap,
    Images,
    Lines,
    Passage,
    Picture,
    Polygons,
    Scatter,
    Swarm,
    Table,
    Waterfall,
)

_noise = np.random.default_rng(0)
_steps = np.arange(0, 500, 25)
_fall = 2 * np.exp(-_steps / 100)
_words = [f"class number {i}" for i in range(12)]
_grid = np.add.outer(np.linspace(-1, 1, 12), np.linspace(-2, 2, 15))
_empty = np.empty(0)

ORDINARY: list[Picture] = [
    Lines(
        "loss",
        "Loss",
        "step",
        "nats",
        {"training": (_steps, _fall), "validation": (_steps[::4], _fall[::4] + 0.05)},
        marks=[(400, "best 0.0866 at 400")],
        caption="Falls.",
    ),
    Lines("rate", "Learning rate", "step", "", {"lr": (_steps, 1e-3 * _fall)}, log_y=True),
    Lines("both", "Log in both", "x", "y", {"a": (1.0 + _steps, 0.01 + _fall)}, log_x=True, log_y=True),
    Lines(
        "reliability",
        "Reliability",
        "confidence",
        "share correct",
        {"model": tuple(np.linspace(low, 0.9, 6) for low in (0.3, 0.2, 0.1, 0.4))},
        diagonal=True,
    ),
    Lines("ten", "Ten curves", "step", "value", {f"s{i}": (_steps, i * _fall) for i in range(10)}),
    Bars(
        "histogram", "Residuals", "residual", "count", [str(i) for i in range(-15, 16)], {"n": np.arange(31)}
    ),
    Bars(
        "long-names", "By class", "class", "accuracy", _words, {"train": np.ones(12), "test": np.ones(12) / 2}
    ),
    Bars("groups", "Two groups", "model", "bits", ["vae", "flow"], {"a": np.ones(2), "b": -np.ones(2)}),
    Heatmap(
        "numbers",
        "Confusion",
        "predicted",
        "true",
        np.diag(np.arange(3)),
        ["a", "b", "c"],
        ["a", "b", "c"],
        True,
    ),
    Heatmap("turned", "Confusion", "predicted", "true", np.eye(12, dtype=int), _words, _words, numbers=True),
    Heatmap("signed", "Weights", "in", "out", _noise.normal(size=(3, 5)), numbers=True, diverging=True),
    Heatmap("key", "Attention", "key", "query", _noise.random((12, 30))),
    Heatmap("pixels", "Kernel", "i", "j", _noise.normal(size=(70, 60)), diverging=True),
    Images("grey", "Samples", _noise.random((23, 8, 8, 1)), [f"{i}→4 0.98" for i in range(23)]),
    Images("colour", "Photos", _noise.random((3, 32, 32, 3)), ["automobile→aeroplane of old\n0.98"] * 3),
    Film(
        "film",
        "Fading in",
        np.linspace(0, 1, 5)[:, None, None, None, None] * _noise.random((3, 8, 8, 1))[None],
    ),
    Scatter(
        "points", "Points", "x", "y", {"a": _noise.normal(size=(30, 2)), "b": _noise.normal(size=(9, 2))}
    ),
    Scatter("surface", "Surface", "x", "y", {"a": _noise.random((30, 2))}, field=_grid, extent=(0, 1, 0, 1)),
    Scatter(
        *("contours", "Heights", "x", "y", {}),
        field=_grid,
        contours=[(-1.0, "low"), (1.0, "high"), (9.0, "nowhere")],
    ),
    Scatter("arrows", "Flow", "x", "y", {}, arrows=(_noise.random((9, 2)), _noise.random((9, 2)) / 5)),
    Polygons(
        "regions",
        "Regions",
        "x",
        "y",
        [np.array([[0, 0], [1, 0], [0, 1]]), np.array([[1, 0], [1, 1], [0, 1]])],
        np.array([1.0, 2.0]),
        {"a": _noise.random((9, 2)), "b": _noise.random((9, 2))},
    ),
    Passage("words", "Surprisal", ["To", " be", ",\n", "or"], np.array([np.nan, 3.0, 0.1, 2.0]), "nats"),
    Scatter("diagonal", "Predicted", "true", "predicted", {"a": _noise.normal(size=(30, 2))}, diagonal=True),
    Scatter("cloud", "Many points", "x", "y", {"a": _noise.normal(size=(5000, 2))}),
    Table(
        "rows", "Mistakes", ["true", "confidence", "n"], [["cat", 0.98, 1], ["a longer name", 1e-7, 123456]]
    ),
    AttentionMaps(
        "attention",
        "Attention",
        np.tril(np.ones((2, 2, 64, 64))) / np.arange(1, 65)[:, None],
        [f"·word{i}" for i in range(64)],
        [f"·word{i}" for i in range(64)],
        (1, 0),
        caption="Uniform.",
    ),
]

NOTE = Footnote("Kernel SHAP; residual 0.000002")
ALARM = Footnote(
    "these values do not add up to the output, which is said at such length that it takes two lines", True
)

ORDINARY += [
    Waterfall(
        "waterfall",
        "Steps",
        "logit",
        0.5,
        ["age = 41", "city = Rome", "rest (7)"],
        np.array([1.0, -2.0, 0.25]),
        ("base value", "output"),
        errors=np.array([0.1, 0.2, 0.0]),
        footnote=NOTE,
    ),
    Waterfall("force", "Force", "logit", 0.5, _words, _noise.normal(size=12), ("base", "end"), joined=True),
    Swarm(
        "swarm",
        "Dots",
        "value",
        _words,
        _noise.normal(size=(12, 50)),
        _noise.normal(size=(12, 50)),
        "shade",
        footnote=ALARM,
    ),
    Scatter(
        "shaded",
        "Shaded",
        "x",
        "y",
        {"a": _noise.random((30, 2))},
        shades=(_noise.random(30), "z"),
        footnote=NOTE,
    ),
    Lines("named", "Paths", "", "y", {"a": (np.arange(12), np.arange(12.0))}, names=_words, footnote=NOTE),
    Bars(
        "errors", "Errors", "x", "y", ["a", "b"], {"n": np.ones(2)}, errors={"n": np.ones(2)}, footnote=NOTE
    ),
    Heatmap("noted", "Noted", "x", "y", np.eye(3), footnote=ALARM),
    Images("noted-images", "Noted", np.ones((2, 4, 4, 3)), footnote=ALARM),
    Passage("signed", "Signed", ["To", " be"], np.array([1.0, -2.0]), "nats", signed=True, footnote=ALARM),
]

CORNERS: list[Picture] = [
    Lines("no-series", "Nothing", "x", "y", {}),
    Lines("no-points", "Nothing", "x", "y", {"a": (_empty, _empty), "b": (_empty, _empty)}),
    Lines("one-point", "One point", "x", "y", {"a": (np.array([3]), np.array([1e-9]))}),
    Lines("holes", "Holes", "x", "y", {"a": (np.arange(4), np.array([1.0, np.nan, np.inf, -np.inf]))}),
    Lines("all-nan", "Not a number", "x", "y", {"a": (np.arange(2), np.full(2, np.nan))}, log_y=True),
    Lines(
        "below-zero",
        "Log of nothing",
        "x",
        "y",
        {"a": (np.arange(-1, 2), np.array([-1.0, 0, 1]))},
        True,
        True,
    ),
    Lines("constant", "Constant", "x", "y", {"a": (np.arange(3), np.ones(3))}),
    Lines("huge", "Huge", "x", "y", {"a": (np.arange(3), np.array([1e300, -1e300, 0]))}),
    Lines("crowd", "Sixty curves", "x", "y", {str(i): (np.arange(3), np.arange(3) * i) for i in range(60)}),
    Bars("no-bars", "Nothing", "x", "y", [], {}),
    Bars("nan-bars", "Not a number", "x", "y", ["a"], {"a": np.array([np.nan])}),
    Bars("names", "Three hundred names", "x", "y", [f"name {i}" for i in range(300)], {"a": np.arange(300)}),
    Heatmap("one-cell", "One cell", "x", "y", np.ones((1, 1)), numbers=True),
    Heatmap("nan-cells", "Not numbers", "x", "y", np.array([[np.nan, np.inf], [1.0, -1e-9]]), numbers=True),
    Heatmap("zeros", "Zeros", "x", "y", np.zeros((2, 3)), diverging=True),
    Heatmap("long", "A long row", "x", "y", np.ones((1, 3000))),
    Images("no-images", "Nothing", np.empty((0, 8, 8, 1))),
    Images("out-of-range", "Too bright", np.array([[[[7.0], [np.nan]]]])),
    Images("few-labels", "Fewer labels", np.ones((3, 2, 2, 1)), ["only one"]),
    Polygons("no-polygons", "Nothing", "x", "y", [], np.empty(0)),
    Polygons("nan", "Unknown", "x", "y", [np.eye(3)[:, :2]], np.array([np.nan])),
    Passage("no-pieces", "Nothing", [], np.empty(0)),
    Passage("unknown", "Unknown", ["a\tb", ""], np.array([np.nan, np.inf])),
    Passage("long-piece", "Long", ["x" * 500] * 9, np.arange(9.0)),
    Scatter("no-groups", "Nothing", "x", "y", {}),
    Scatter("empty-group", "Empty", "x", "y", {"a": np.empty((0, 2)), "b": np.zeros((1, 2))}),
    Scatter("flat-field", "Flat", "x", "y", {"a": np.zeros((1, 2))}, field=np.ones((3, 3))),
    Scatter("nan-field", "Nothing", "x", "y", {"a": np.zeros((1, 2))}, field=np.full((3, 3), np.nan)),
    Scatter(
        "far-away",
        "Flown off",
        "x",
        "y",
        {"a": np.array([[0, 1], [1e308, 1], [np.nan, np.inf]]), "w": np.array([[0, 1], [np.nan, 1]])},
        field=np.array([[0, np.inf], [1, 2.0]]),
        arrows=(np.array([[0, 0], [1e308, 0]]), np.array([[1, 1], [1e308, -np.inf]])),
        words={"w": ["here", "nowhere"]},
    ),
    Lines(
        "log-huge",
        "Blown up",
        "x",
        "y",
        {"a": (np.arange(1, 5), np.array([1e-308, 1, 1e200, 1.7e308]))},
        True,
        True,
    ),
    Bars("inf-bars", "Infinite", "x", "y", ["a", "b"], {"a": np.array([np.inf, 1.7e308])}),
    Table("no-rows", "Nothing", ["a", "b"]),
    Table("no-columns", "Less than nothing", []),
    Waterfall("no-steps", "Nothing", "x", 0.0, [], _empty, ("a", "b")),
    Waterfall("nan-steps", "Unknown", "x", 1.0, ["a", "b"], np.array([np.nan, 0.0]), ("a", "b"), joined=True),
    Swarm("no-dots", "Nothing", "x", [], np.empty((0, 0))),
    Swarm("nan-dots", "Unknown", "x", ["a"], np.array([[np.nan, 1.0]]), np.full((1, 2), np.nan)),
    AttentionMaps("one-token", "One token", np.ones((1, 1, 1, 1)), ["a"], ["a"]),
    AttentionMaps(
        "odd-weights", "Not weights", np.array([[[[np.nan, 7.0]]]]), ["a"], ["b", "a long token" * 9]
    ),
]

NASTY = "<script>alert(1)</script> ]]> & \" ' $\\frac{ \x00\x1b\n‮ 中文 😀 \ud800 --> #1e6db9"

HOSTILE: list[Picture] = [
    Lines(
        NASTY,
        NASTY,
        NASTY,
        NASTY,
        {NASTY: (_steps, _fall), "b": (_steps, _fall)},
        marks=[(5, NASTY)],
        caption=NASTY,
    ),
    Bars(NASTY, NASTY, NASTY, NASTY, [NASTY, "b"], {NASTY: np.ones(2), "b": np.ones(2)}, caption=NASTY),
    Heatmap(NASTY, NASTY, NASTY, NASTY, np.eye(2), [NASTY, "b"], [NASTY, "b"], numbers=True, caption=NASTY),
    Images(NASTY, NASTY, np.ones((2, 2, 2, 1)), [NASTY, "b"], caption=NASTY),
    Scatter(NASTY, NASTY, NASTY, NASTY, {NASTY: np.zeros((1, 2)), "b": np.ones((1, 2))}, caption=NASTY),
    Table(NASTY, NASTY, [NASTY, "b"], [[NASTY, 1.0]], caption=NASTY),
    Waterfall(
        NASTY,
        NASTY,
        NASTY,
        0.0,
        [NASTY],
        np.ones(1),
        (NASTY, NASTY),
        footnote=Footnote(NASTY, True),
        caption=NASTY,
    ),
    Swarm(
        NASTY, NASTY, NASTY, [NASTY], np.ones((1, 3)), np.eye(3)[:1], NASTY, Footnote(NASTY), caption=NASTY
    ),
    AttentionMaps(
        NASTY, NASTY, np.full((1, 2, 2, 2), 0.5), [NASTY, "b"], [NASTY, "</script>"], caption=NASTY
    ),
]
