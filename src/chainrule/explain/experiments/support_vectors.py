"""Support vectors and margins in the plane, and what the price C and the width of the kernel do to them.

Noisy classes in the plane are told apart for every C and every gamma of a grid. Small ones of both leave a nearly
straight border with many support vectors; large ones bend it around single examples, which new examples then pay for.
"""

from typing import Annotated, Any, Literal, NamedTuple, final

import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule.core.pictures import Heatmap, Lines, Picture, Scatter, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.kernels import RBF
from chainrule.kernels.support_vectors import FittedClassifier, SupportVectorClassifier

_GRID = 100
_TEST = 2000
Positive = Annotated[float, Field(gt=0, le=1e6)]


@final
class SupportVectorsSettings(Settings):
    """The examples, and the grid of settings."""

    data: Literal["moons", "xor"] = Field("moons", description="two classes in the plane")
    examples: int = Field(200, ge=20, le=5000, description="training examples")
    noise: float = Field(0.25, ge=0, le=2, description="of the examples")
    C: tuple[Positive, ...] = Field(
        (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0), min_length=1, description="prices that are tried"
    )
    gamma: tuple[Positive, ...] = Field(
        (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        min_length=1,
        description="factors of the squared distance that are tried",
    )
    seed: int = Field(0, ge=0, description="of the examples")


class _Examples(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def run(settings: SupportVectorsSettings, listener: Listener) -> Outcome:
    """Fit every setting of the grid, count its support vectors and see how it does on new examples."""
    seen = _examples(settings)
    shape = len(settings.gamma), len(settings.C)
    support, train, test = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    machines: dict[tuple[int, int], FittedClassifier] = {}
    for i, gamma in enumerate(settings.gamma):
        for j, price in enumerate(settings.C):
            machine = SupportVectorClassifier(RBF(gamma=gamma), C=price).fit(seen.x, seen.y)
            machines[i, j] = machine
            support[i, j] = len(machine.support)
            train[i, j] = (machine.predict(seen.x) == seen.y).mean()
            test[i, j] = (machine.predict(seen.test_x) == seen.test_y).mean()
        listener(f"gamma={gamma:g}: accuracy on new examples up to {test[i].max():.3f}")
    best = divmod(int(test.argmax()), shape[1])
    tightest = divmod(int((train - test).argmax()), shape[1])
    rows: list[list[Any]] = [
        [gamma, price, int(support[i, j]), round(float(train[i, j]), 4), round(float(test[i, j]), 4)]
        for i, gamma in enumerate(settings.gamma)
        for j, price in enumerate(settings.C)
    ]
    return Outcome(
        [
            f"Best on new examples is gamma={settings.gamma[best[0]]:g} with C={settings.C[best[1]]:g}: "
            f"{test[best]:.1%} right, with {int(support[best])} of {len(seen.x)} examples as support vectors.",
            f"Training and new examples differ most at gamma={settings.gamma[tightest[0]]:g} with "
            f"C={settings.C[tightest[1]]:g}: {train[tightest]:.1%} and {test[tightest]:.1%}, with "
            f"{int(support[tightest])} support vectors.",
        ],
        [
            _margins("best", "Border and margins, the best setting", settings, seen, machines[best], best),
            _margins(
                "tight", "The setting that fits too closely", settings, seen, machines[tightest], tightest
            ),
            *_maps(settings, support, test),
            _curves(settings, support, train, test, best[1]),
        ],
        Table(
            "support-vectors-table",
            "Every setting",
            ["gamma", "C", "support vectors", "accuracy on training", "accuracy on new"],
            rows,
        ),
        {
            "gamma": list(settings.gamma),
            "C": list(settings.C),
            "support_vectors": support.astype(int).tolist(),
            "train_accuracy": train.tolist(),
            "test_accuracy": test.tolist(),
            "best": {
                "gamma": settings.gamma[best[0]],
                "C": settings.C[best[1]],
                "accuracy": float(test[best]),
            },
        },
    )


def _examples(settings: SupportVectorsSettings) -> _Examples:
    """Training examples and new ones of the same source, in original units."""
    total = settings.examples + _TEST
    data = sources.load(settings.data, n=total, noise=settings.noise, seed=settings.seed)
    parts = [part.batch(np.arange(len(part))) for part in (data.train, data.val, data.test)]
    x = np.concatenate([data.inverse(part.x) for part in parts]).astype(np.float64)
    y = np.concatenate([np.asarray(part.y) for part in parts])
    order = np.random.default_rng(settings.seed).permutation(len(x))
    first, rest = order[: settings.examples], order[settings.examples :]
    return _Examples(x[first], y[first], x[rest], y[rest])


def _margins(
    name: str,
    title: str,
    settings: SupportVectorsSettings,
    seen: _Examples,
    machine: FittedClassifier,
    at: tuple[int, int],
) -> Scatter:
    low, high = seen.x.min(axis=0), seen.x.max(axis=0)
    edge = 0.08 * (high - low)
    (left, bottom), (right, top) = (low - edge).tolist(), (high + edge).tolist()
    grid = np.stack(np.meshgrid(np.linspace(left, right, _GRID), np.linspace(bottom, top, _GRID)), axis=-1)
    field = np.asarray(machine.decision(grid.reshape(-1, 2))).reshape(_GRID, _GRID)
    groups = {f"class {k}": seen.x[seen.y == k] for k in np.unique(seen.y)}
    return Scatter(
        f"support-vectors-{name}",
        title,
        "x1",
        "x2",
        {**groups, "support vectors": machine.points},
        np.clip(field, -2, 2),
        (left, right, bottom, top),
        [(-1.0, "-1"), (0.0, "0"), (1.0, "1")],
        caption=f"gamma={settings.gamma[at[0]]:g}, C={settings.C[at[1]]:g}. The shade is the decision value, cut "
        "off at two; lines are the border and the margins.",
    )


def _maps(settings: SupportVectorsSettings, support: np.ndarray, test: np.ndarray) -> list[Picture]:
    rows, columns = [f"{g:g}" for g in settings.gamma], [f"{c:g}" for c in settings.C]
    return [
        Heatmap(
            "support-vectors-accuracy",
            "Accuracy on new examples",
            "C",
            "gamma",
            test.round(3),
            rows,
            columns,
            True,
        ),
        Heatmap("support-vectors-count", "Support vectors", "C", "gamma", support, rows, columns, True),
    ]


def _curves(
    settings: SupportVectorsSettings, support: np.ndarray, train: np.ndarray, test: np.ndarray, column: int
) -> Lines:
    gamma = np.array(settings.gamma)
    return Lines(
        "support-vectors-curves",
        f"By gamma, at C={settings.C[column]:g}",
        "gamma",
        "share",
        {
            "accuracy on training": (gamma, train[:, column]),
            "accuracy on new": (gamma, test[:, column]),
            "support vectors": (gamma, support[:, column] / settings.examples),
        },
        log_x=True,
    )


experiment = Experiment(
    "Support vectors and margins in the plane, with their number and the accuracy by C and gamma.",
    SupportVectorsSettings,
    run,
    toy={"examples": 40, "C": [1.0, 10.0], "gamma": [0.3, 3.0]},
    reference="Cortes and Vapnik, Support-vector networks, Machine Learning 20, 1995",
)

__all__ = ["SupportVectorsSettings", "experiment", "run"]
