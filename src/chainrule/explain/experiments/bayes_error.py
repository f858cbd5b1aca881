"""Classifiers against the Bayes error, on Gaussian classes that are known: how near each comes, with how many examples.

The truth is known, so that the error of a classifier f needs no labels: it is `E[1 - P(f(x) | x)]`, and its excess over
the Bayes error `E[max_k P(k | x) - P(f(x) | x)]`, which is never negative. Both are means over the same draws.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core.pictures import Lines, Scatter, Table
from chainrule.data import Data
from chainrule.explain.methods.training import train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models.protocol import CanPredict, HasOwnTraining
from chainrule.probability import BayesClassifier, MultivariateNormal, bayes_classifier
from chainrule.train.scores.classification import calibration

_SHOWN = 400
_GRID = 120
_POINTS = 5


@final
class BayesErrorSettings(Settings):
    """The classes, and how many examples of them are seen."""

    classes: int = Field(3, ge=2, le=10, description="Gaussian classes")
    dimensions: int = Field(2, ge=1, le=50, description="entries of an example")
    distance: float = Field(
        1.6, gt=0, le=20, description="of the means from the middle, in standard deviations"
    )
    covariances: Literal["same", "different"] = Field("different", description="of the classes")
    examples: tuple[Annotated[int, Field(ge=30, le=1_000_000)], ...] = Field(
        (60, 200, 600, 2000), min_length=1, description="sizes of the training split that are compared"
    )
    draws: int = Field(50_000, ge=100, le=10_000_000, description="draws by which classifiers are judged")
    steps: int = Field(800, ge=1, description="training steps of the multi-layer perceptron")
    seed: int = Field(0, ge=0, description="of classes, examples and draws")


def truth(settings: BayesErrorSettings) -> BayesClassifier:
    """Classes around the middle, turned and stretched differently or all alike."""
    draws = np.random.default_rng(settings.seed)
    k, d = settings.classes, settings.dimensions
    means = draws.normal(size=(k, d))
    means *= settings.distance / np.linalg.norm(means, axis=1, keepdims=True)
    if d <= 2:  # evenly around the circle, or along the line
        turn = 2 * np.pi * np.arange(k) / k
        circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
        along = np.linspace(-1, 1, k)[:, None]
        means = settings.distance * (circle if d == 2 else along)
    turns = np.linalg.qr(draws.normal(size=(k, d, d)))[0]
    scales = np.exp(draws.uniform(-0.7, 0.7, size=(k, d)))
    covariances = np.einsum("kij,kj,klj->kil", turns, scales**2, turns)
    if settings.covariances == "same":
        covariances = np.broadcast_to(covariances[:1], covariances.shape)
    prior = np.full(k, 1 / k)
    return bayes_classifier(prior, MultivariateNormal(means, covariances))


def run(settings: BayesErrorSettings, listener: Listener) -> Outcome:
    """Train every classifier on more and more examples and hold it against the truth."""
    known = truth(settings)
    key = jax.random.key(settings.seed)
    error = known.error(key=jax.random.fold_in(key, 1), samples=settings.draws)
    least = float(error.value)
    x, y = (np.asarray(one) for one in known.sample(jax.random.fold_in(key, 2), settings.draws))
    posterior = np.asarray(known.posterior(x))
    excess: dict[str, list[float]] = {}
    spread: dict[str, list[float]] = {}
    answers: dict[str, Callable[[np.ndarray], np.ndarray]] = {}
    for size in settings.examples:
        data = _examples(known, size, jax.random.fold_in(key, 3), settings)
        for name, predict in _trained(data, settings).items():
            lost = (
                posterior.max(axis=1)
                - np.take_along_axis(posterior, predict(x).argmax(axis=1)[:, None], axis=1).ravel()
            )
            excess.setdefault(name, []).append(float(lost.mean()))
            spread.setdefault(name, []).append(float(lost.std() / np.sqrt(len(lost))))
            answers[name] = predict
        listener(
            f"{size} examples: " + ", ".join(f"{name} +{values[-1]:.4f}" for name, values in excess.items())
        )
    best = min(excess, key=lambda name: excess[name][-1])
    bar = "" if error.method != "monte-carlo" else f" ± {float(error.standard_error):.1g}"
    return Outcome(
        [
            f"The Bayes error of these {settings.classes} classes is {100 * least:.2f} %{bar} ({error.method}): "
            "nobody who sees x alone is wrong less often.",
            f"With {settings.examples[-1]:,} examples {best} is nearest: {100 * excess[best][-1]:.2f} points above it. "
            + "; ".join(f"{name} +{100 * values[-1]:.2f}" for name, values in excess.items() if name != best)
            + ".",
        ],
        [
            _curves(settings, excess, least),
            *_regions(known, x[:_SHOWN], y[:_SHOWN], settings),
            _reliability(posterior, {name: f(x) for name, f in answers.items()}, y),
            _posteriors(known, answers, x[:_POINTS]),
        ],
        _table(settings, excess, spread, least),
        {
            "bayes_error": least,
            "method": error.method,
            "standard_error": float(error.standard_error),
            "examples": list(settings.examples),
            "excess": excess,
            "excess_error": spread,
        },
    )


def _examples(known: BayesClassifier, size: int, key: jax.Array, settings: BayesErrorSettings) -> Data:
    """`size` training examples, and a fifth of them for validation; every class is among the first."""
    more = size + max(size // 5, 30)
    x, y = (np.array(one) for one in known.sample(key, more))
    y[: settings.classes] = np.arange(settings.classes)
    first = known.mixture.components.draw_components(jax.random.fold_in(key, 0), jnp.arange(settings.classes))
    x[: settings.classes] = np.asarray(first)
    classes = tuple(f"class {k}" for k in range(settings.classes))
    schema = sources.Schema("table", x.shape[1:], target="class", classes=classes)

    def rows(part: slice) -> sources.Rows:
        return sources.Rows({"x": x[part].astype(np.float32), "y": y[part].astype(np.int32)})

    train, val, test = rows(slice(size)), rows(slice(size, None)), rows(slice(0))
    return Data("known Gaussians", schema, train, val, test, sources.Scaling(), None, "known-gaussians", {})


def _trained(data: Data, settings: BayesErrorSettings) -> Mapping[str, Callable[[np.ndarray], np.ndarray]]:
    """Probabilities of classes by every classifier."""
    found: dict[str, Callable[[np.ndarray], np.ndarray]] = {}
    all_of = data.train.batch(np.arange(len(data.train)))
    for name, covariance in (("LDA", "shared"), ("QDA", "per-class"), ("naive Bayes", "diagonal")):
        model: Any = models.build("gaussian-classifier", data, covariance=covariance)
        assert isinstance(model, HasOwnTraining)
        fitted: Any = model.iterate(all_of, jax.random.key(0))[0]
        found[name] = _predictor(fitted)
    network = models.build("mlp", data, seed=settings.seed, width=32, depth=3, dropout=0.0)
    steps, every = settings.steps, max(settings.steps // 10, 1)
    batch = min(64, len(data.train))
    best: list[Any] = [np.inf, network]
    judged = eqx.filter_jit(
        lambda model, batch: eqx.nn.inference_mode(model).loss(batch, jax.random.key(0))[0]
    )

    def watch(step: int, model: Any) -> None:
        """Early stopping, as a run does it: the checkpoint with the lowest validation loss is kept."""
        del step
        loss = float(judged(model, held))
        if loss < best[0]:
            best[:] = [loss, model]

    held = jax.tree.map(jnp.asarray, data.val.batch(np.arange(len(data.val))))
    train(
        network,
        data,
        steps=steps,
        every=every,
        watch=watch,
        batch=batch,
        seed=settings.seed,
        optimizer={"name": "adam", "lr": 3e-3},
    )
    found["mlp"] = _predictor(best[1])
    return found


def _predictor(model: CanPredict) -> Callable[[np.ndarray], np.ndarray]:
    compiled = eqx.filter_jit(lambda m, x: m.predict(x))
    return lambda x: np.asarray(compiled(model, jnp.asarray(x, jnp.float32)), np.float64)


def _curves(settings: BayesErrorSettings, excess: Mapping[str, list[float]], least: float) -> Lines:
    sizes = np.asarray(settings.examples, float)
    series = {name: (sizes, least + np.asarray(values)) for name, values in excess.items()}
    return Lines(
        "bayes-error",
        "Error against the number of training examples",
        "training examples",
        "probability of the wrong class",
        {**series, "Bayes error": (sizes, np.full(len(sizes), least))},
        log_x=True,
        caption="No classifier can lie below the Bayes error; what a family cannot represent keeps it above for good.",
    )


def _regions(
    known: BayesClassifier, x: np.ndarray, y: np.ndarray, settings: BayesErrorSettings
) -> list[Scatter]:
    """How sure the best answer can be, everywhere in the plane."""
    if settings.dimensions != 2:
        return []
    low, high = x.min(axis=0), x.max(axis=0)
    axes = [np.linspace(low[i], high[i], _GRID) for i in range(2)]
    grid = np.stack(np.meshgrid(*axes), axis=-1)
    sure = np.asarray(known.posterior(grid)).max(axis=-1)
    return [
        Scatter(
            "bayes-error-regions",
            "The probability of the likeliest class",
            "first entry",
            "second entry",
            {f"class {k}": x[y == k] for k in range(settings.classes)},
            field=sure,
            extent=(float(low[0]), float(high[0]), float(low[1]), float(high[1])),
            contours=((0.6, "0.6"), (0.9, "0.9")),
            caption="Where it is low, classes overlap, and every classifier is often wrong.",
        )
    ]


def _reliability(posterior: np.ndarray, answers: Mapping[str, np.ndarray], y: np.ndarray) -> Lines:
    series = {}
    for name, p in {"true posterior": posterior.astype(np.float64), **answers}.items():
        error, confidence, accuracy, count = calibration(p, y)
        some = count > len(y) // 1000
        series[f"{name}, error {error:.3f}"] = (confidence[some], accuracy[some])
    return Lines(
        "bayes-error-calibration",
        "Calibration with the most examples",
        "confidence",
        "share correct",
        series,
        diagonal=True,
        caption="Of the probability of the predicted class; groups of less than a thousandth of the draws are omitted.",
    )


def _posteriors(
    known: BayesClassifier, answers: Mapping[str, Callable[[np.ndarray], np.ndarray]], x: np.ndarray
) -> Table:
    """True probabilities of the classes at a few points, and those of every classifier."""
    named = {"true": np.asarray(known.posterior(x)), **{name: f(x) for name, f in answers.items()}}

    def shown(row: np.ndarray) -> str:
        return "  ".join(f"{value:.3f}" for value in row)

    rows = [
        [
            ", ".join(f"{value:.2f}" for value in point[:3]) + ("" if len(point) <= 3 else ", ..."),
            *(shown(p[i]) for p in named.values()),
        ]
        for i, point in enumerate(x)
    ]
    return Table(
        "bayes-error-posteriors", "Probabilities of the classes at a few points", ["x", *named], rows
    )


def _table(
    settings: BayesErrorSettings,
    excess: Mapping[str, list[float]],
    spread: Mapping[str, list[float]],
    least: float,
) -> Table:
    rows: list[list[str]] = []
    for name, values in excess.items():
        both = zip(values, spread[name], strict=True)
        cells = (f"{100 * (least + value):.2f} (+{100 * value:.2f} ± {100 * bar:.2f})" for value, bar in both)
        rows.append([name, *cells])
    rows.append(["Bayes", *[f"{100 * least:.2f}"] * len(settings.examples)])
    heads = ["error, % (above Bayes)", *(f"{size:,} examples" for size in settings.examples)]
    return Table("bayes-error-table", "Error of every classifier", heads, rows)


experiment = Experiment(
    "Classifiers against the Bayes error, on Gaussian classes that are known.",
    BayesErrorSettings,
    run,
    toy={"examples": (60,), "draws": 500, "steps": 10},
    reference="Devroye, Györfi and Lugosi, A Probabilistic Theory of Pattern Recognition, 1996",
)

__all__ = ["BayesErrorSettings", "experiment", "run", "truth"]
