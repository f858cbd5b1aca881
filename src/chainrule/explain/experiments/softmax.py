"""Softmax: probabilities of logits, what temperature does to them, and its Jacobian."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Heatmap, Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Positive, Settings


@final
class SoftmaxSettings(Settings):
    """The logits."""

    logits: tuple[float, ...] = Field(
        (2.0, 1.0, 1.0, -1.0), min_length=2, max_length=30, description="the logits"
    )
    temperature: Positive = Field(1.0, description="they are divided by it")
    shift: float = Field(100.0, description="constant that is added to all of them, to no effect")


def run(settings: SoftmaxSettings, listener: Listener) -> Outcome:
    """Probabilities, limits and Jacobian, in double precision."""
    del listener
    with jax.enable_x64(True):
        logits = jnp.asarray(settings.logits, jnp.float64) / settings.temperature
        p = np.asarray(jax.nn.softmax(logits))
        shifted = np.asarray(jax.nn.softmax(logits + settings.shift))
        jacobian = np.asarray(jax.jacobian(jax.nn.softmax)(logits))
        temperatures = np.geomspace(0.02, 50, 120)
        divided = np.asarray(settings.logits)[None, :] / temperatures[:, None]
        swept = np.asarray(jax.nn.softmax(jnp.asarray(divided), axis=1))
    formula = np.diag(p) - np.outer(p, p)
    apart = float(np.abs(jacobian - formula).max())
    ties = np.flatnonzero(np.asarray(settings.logits) == max(settings.logits))
    names = [f"logit {value:g}" for value in settings.logits]
    with np.errstate(divide="ignore"):  # a certain class has infinite odds
        odds = np.log(p) - np.log1p(-p)
    share = (
        "the largest takes all"
        if len(ties) == 1
        else f"the {len(ties)} largest take {1 / len(ties):.4g} each"
    )
    unique = [f"{name} ({number})" if names.count(name) > 1 else name for number, name in enumerate(names)]
    return Outcome(
        [
            f"At temperature {settings.temperature:g} the probabilities are {', '.join(f'{one:.4g}' for one in p)}.",
            f"Adding {settings.shift:g} to every logit moves none of them by more than "
            f"{float(np.abs(p - shifted).max()):.1e}: only differences of logits count.",
            f"As the temperature falls to zero {share}; as it grows all come to {1 / len(p):.4g}.",
            f"The Jacobian is diag(p) - p pᵀ, up to {apart:.1e}; its rows sum to zero.",
            "A logit is no probability: the log-odds of a class are its logit minus the log-sum-exp of the others.",
        ],
        _pictures(settings, unique, temperatures, swept, jacobian),
        Table(
            "softmax-table",
            "Classes",
            ["logit", "probability", "log-odds", "slope by its own logit"],
            [list(map(float, row)) for row in zip(settings.logits, p, odds, np.diag(formula), strict=True)],
        ),
        {"probabilities": p.tolist(), "jacobian": jacobian.tolist(), "jacobian_deviation": apart},
    )


def _pictures(
    settings: SoftmaxSettings,
    names: list[str],
    temperatures: np.ndarray,
    swept: np.ndarray,
    jacobian: np.ndarray,
) -> list[Lines | Heatmap]:
    return [
        Lines(
            "softmax-temperature",
            "Probabilities by temperature",
            "temperature",
            "probability",
            {name: (temperatures, swept[:, number]) for number, name in enumerate(names)},
            log_x=True,
            marks=[(settings.temperature, "here")],
        ),
        Heatmap(
            "softmax-jacobian",
            "Jacobian: change of each probability with each logit",
            "logit",
            "probability",
            jacobian,
            rows=names,
            columns=names,
            numbers=len(names) <= 8,
            diverging=True,
        ),
    ]


experiment = Experiment(
    "Softmax of logits of your own: temperature, ties, invariance to a constant, Jacobian.",
    SoftmaxSettings,
    run,
    toy={},
    reference="Bridle, 1990; Goodfellow, Bengio and Courville, Deep Learning, 2016, section 6.2.2.3",
)

__all__ = ["SoftmaxSettings", "experiment", "run"]
