"""The information plane of narrow networks on a problem whose every input is shown, tanh beside ReLU.

Whether layers first take in and then throw away information about the input is measured here, never assumed. It depends
on the nonlinearity and on the estimator, and need not go along with better answers: read the numbers beside the test
accuracy.
"""

from typing import Annotated, Any, Literal, final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Picture, Table
from chainrule.explain.methods.pattern_networks import NarrowNetworks, patterns, shown, trained
from chainrule.explain.methods.plane_paths import (
    HEADS,
    PlanePath,
    by_step,
    film,
    over_time,
    path_of,
    phase_rows,
)
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.information.plane import estimator_label
from chainrule.nn.activations import ActivationName


@final
class InformationPlaneSettings(Settings):
    """The networks, how they are trained, and how information is measured."""

    widths: tuple[Annotated[int, Field(ge=1, le=10_000)], ...] = Field(
        (10, 7, 5, 4, 3), min_length=1, description="units of the hidden layers"
    )
    activations: tuple[ActivationName, ...] = Field(
        ("tanh", "relu"), min_length=1, description="nonlinearities, from the same seeds"
    )
    steps: int = Field(20_000, ge=1, le=10_000_000, description="of training")
    moments: int = Field(
        40, ge=2, le=500, description="moments of training that are looked at, more of them early"
    )
    seeds: int = Field(3, ge=1, le=100, description="networks of each nonlinearity, over which is averaged")
    batch: int = Field(256, ge=1, le=4096, description="patterns of a step")
    lr: float = Field(1e-3, gt=0, description="learning rate of Adam")
    share: float = Field(0.8, gt=0, lt=1, description="share of the 4,096 patterns that is trained on")
    estimator: Literal["binning", "noise"] = Field(
        "binning", description="bins for each unit, or noise that is added to it"
    )
    bins: int = Field(30, ge=2, le=10_000, description="binning: bins of a unit, over all its layer reaches")
    noise: float = Field(0.1, gt=0, description="noise: its standard deviation")
    patterns: int = Field(
        512,
        ge=16,
        le=4096,
        description="noise: patterns that are looked at, because each is compared with each",
    )
    seed: int = Field(0, ge=0, description="weights, classes and batches")


def run(settings: InformationPlaneSettings, listener: Listener) -> Outcome:
    """Train networks of every nonlinearity, and follow their layers through the plane."""
    known = patterns()
    marks = np.unique(
        np.concatenate([[0], np.geomspace(1, settings.steps, settings.moments - 1).round()])
    ).astype(int)
    some = np.arange(len(known.x))
    if settings.estimator == "noise":
        some = np.random.default_rng(settings.seed).permutation(some)[: settings.patterns]
    paths: dict[str, PlanePath] = {}
    networks: dict[str, NarrowNetworks] = {}
    for name in dict.fromkeys(settings.activations):
        listener(f"{name}: {settings.seeds} networks, {settings.steps:,} steps")
        networks[name] = trained(
            settings.widths,
            name,
            marks,
            seeds=settings.seeds,
            seed=settings.seed,
            batch=settings.batch,
            lr=settings.lr,
            share=settings.share,
        )
        listener(f"{name}: information of {len(settings.widths) + 1} layers at {len(marks)} moments")
        paths[name] = _mean_path(networks[name], name, marks, known.x[some], known.p[some], settings)
    return _outcome(settings, known.information, paths, networks, len(some))


def _mean_path(
    found: NarrowNetworks,
    name: str,
    marks: np.ndarray,
    x: np.ndarray,
    p: np.ndarray,
    settings: InformationPlaneSettings,
) -> PlanePath:
    one = [
        path_of(
            {
                int(mark): shown(weights, which, name, x)
                for mark, weights in zip(marks, found.weights, strict=True)
            },
            p,
            estimator=settings.estimator,
            bins=settings.bins,
            noise=settings.noise,
        )
        for which in range(settings.seeds)
    ]
    about_input, about_target = (
        np.mean([getattr(path, part) for path in one], axis=0) for part in ("about_input", "about_target")
    )
    return PlanePath(marks, one[0].layers, about_input, about_target)


def _outcome(
    settings: InformationPlaneSettings,
    information: float,
    paths: dict[str, PlanePath],
    networks: dict[str, NarrowNetworks],
    count: int,
) -> Outcome:
    how = estimator_label(settings.estimator, settings.bins, settings.noise)
    accuracy = {name: one.accuracy.mean(axis=1) for name, one in networks.items()}
    findings = [_said(name, path, accuracy[name], how) for name, path in paths.items()]
    wrong = {name: path.rises() for name, path in paths.items() if path.rises()}
    numbers: dict[str, Any] = {
        name: {
            "test_accuracy": float(accuracy[name][-1, 1]),
            "train_accuracy": float(accuracy[name][-1, 0]),
            "about_input": path.about_input[-1].tolist(),
            "about_target": path.about_target[-1].tolist(),
            "compression": [phase.compression for phase in path.phases().values()],
            "fitting": [phase.fitting for phase in path.phases().values()],
            "rises": path.rises(),
        }
        for name, path in paths.items()
    }
    pictures: list[Picture] = [film("information-plane-film", "Layers in the information plane", paths, how)]
    for name, path in paths.items():
        pictures.append(by_step(f"information-plane-{name}", f"Information plane, {name}", path, how))
        pictures.append(
            over_time(
                f"information-plane-{name}-input", f"What layers know about the input, {name}", path, how
            )
        )
    return Outcome(
        [
            *findings,
            f"All of it ({how}) is of {count:,} patterns, with at most {np.log2(count):.3g} bits about the input; the "
            f"input itself has {information:.3g} bits about the class.",
            "Compression depends on the nonlinearity and the estimator, and need not go along with better answers.",
            "The data-processing inequality holds between all layers in the end."
            if not wrong
            else "Estimator failure: "
            + "; ".join(f"with {name} {', '.join(names)}" for name, names in wrong.items())
            + " read more than a layer before; each layer is measured by itself.",
        ],
        [*pictures, _accuracies(paths, accuracy)],
        Table(
            "information-plane-table",
            "Two phases, as measured",
            ["nonlinearity", *HEADS],
            phase_rows(paths),
            caption=f"In bits, {how}, means over {settings.seeds} networks. The plateau is where I(h; Y) has made 95 % "
            "of its rise; a negative change after it is compression.",
        ),
        {"information": information, "estimator": how, **numbers},
    )


def _said(name: str, path: PlanePath, accuracy: np.ndarray, how: str) -> str:
    *_, (_, last) = list(path.phases().items())[:-1] or list(path.phases().items())
    change = [phase.compression for phase in list(path.phases().values())[:-1]]
    direction = "lose" if np.mean(change) < 0 else "gain"
    return (
        f"{name}: after I(h; Y) has levelled off hidden layers {direction} {abs(np.mean(change)):.2f} bits about the "
        f"input on average, the last of them {last.compression:+.2f} ({how}); test accuracy {accuracy[-1, 1]:.3f}."
    )


def _accuracies(paths: dict[str, PlanePath], accuracy: dict[str, np.ndarray]) -> Lines:
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for name, path in paths.items():
        for number, part in enumerate(("training", "test")):
            series[f"{name}, {part}"] = (path.steps + 1.0, accuracy[name][:, number])
    return Lines("information-plane-accuracy", "Right answers", "steps + 1", "accuracy", series, log_x=True)


experiment = Experiment(
    "The information plane of narrow networks on all 4,096 patterns of twelve switches, tanh beside ReLU.",
    InformationPlaneSettings,
    run,
    toy={"widths": (4, 3), "steps": 20, "moments": 3, "seeds": 1, "batch": 32},
    reference="Shwartz-Ziv and Tishby, Opening the black box of deep neural networks via information, 2017, "
    "arXiv:1703.00810; Saxe et al., On the information bottleneck theory of deep learning, 2018",
)

__all__ = ["InformationPlaneSettings", "experiment", "run"]
