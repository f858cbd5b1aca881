"""The adversarial game on a line, in three snapshots: the learned discriminator beside the best one there could be.

Data are normal, the generator starts from normal noise, and both networks have one hidden layer. The best discriminator
p/(p + q) is known up to the density of what is generated, which is estimated from draws.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field
from scipy import stats

from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.core.types import Array, Key
from chainrule.explain.methods.adversarial_pair import AdversarialPair, play, scores
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.kernels.density import KernelDensity
from chainrule.probability import Normal
from chainrule.probability.divergences import game

_BINS = 40


@final
class GameOnALineSettings(Settings):
    """The data, the networks, and how long they play."""

    mean: float = Field(1.0, ge=-100, le=100, description="of the data")
    deviation: float = Field(1.5, gt=0, le=100, description="standard deviation of the data")
    width: int = Field(32, ge=1, le=4096, description="hidden units of both networks")
    alone: int = Field(1000, ge=0, le=1_000_000, description="updates of the discriminator before both play")
    rounds: int = Field(4000, ge=0, le=1_000_000, description="rounds in which both are updated once")
    lr: float = Field(1e-3, gt=0, le=1, description="learning rate of both")
    batch: int = Field(256, ge=2, le=100_000, description="points of each kind in an update")
    saturating: bool = Field(False, description="whether the generator descends log(1 - D) instead of -log D")
    draws: int = Field(5000, ge=100, le=100_000, description="points of the histograms and the estimate of q")
    seed: int = Field(0, ge=0, description="weights and draws")


def run(settings: GameOnALineSettings, listener: Listener) -> Outcome:
    """Untrained; the discriminator trained alone; both trained."""
    data = Normal(settings.mean, settings.deviation)

    def draw(key: Key, n: int) -> Array:
        return data.sample(key, n)[:, None]

    pair = AdversarialPair.start(1, 1, width=settings.width, key=random.key(settings.seed, "players"))
    options: dict[str, Any] = {"batch": settings.batch, "lr": settings.lr, "saturating": settings.saturating}
    found = {"untrained": _snapshot(settings, pair, data)}
    listener(f"the discriminator alone, {settings.alone:,} updates")
    keys = jax.random.split(random.key(settings.seed, "rounds"))
    pair = play(pair, draw, keys[0], settings.alone, generator_updates=0, **options)
    found["discriminator alone"] = _snapshot(settings, pair, data)
    listener(f"both, {settings.rounds:,} rounds")
    pair = play(pair, draw, keys[1], settings.rounds, **options)
    found["both trained"] = _snapshot(settings, pair, data)
    return _outcome(settings, found)


@eqx.filter_jit
def _drawn(pair: AdversarialPair, data: Normal, x: Array, key: Key, n: int) -> tuple[Array, ...]:
    first, second = jax.random.split(key)
    fake, real = pair.generate(first, n)[:, 0], data.sample(second, n)
    return fake, real, *(jax.nn.sigmoid(scores(pair.discriminator, one[:, None])) for one in (x, real))


def _snapshot(settings: GameOnALineSettings, pair: AdversarialPair, data: Normal) -> dict[str, Any]:
    reach = 4 * settings.deviation
    x = np.linspace(settings.mean - reach, settings.mean + reach, 201).astype(np.float32)
    key = random.key(settings.seed, "snapshots")
    fake, real, learned, on_data = map(np.asarray, _drawn(pair, data, jnp.asarray(x), key, settings.draws))
    density = np.exp(np.asarray(data.log_prob(x)))
    generated = np.exp(np.asarray(KernelDensity().fit(fake[:, None]).log_prob(x[:, None])))
    best = np.asarray(game.optimal_discriminator(density, generated, at=x, normalize=True))
    # Where neither law has draws, D is whatever the network happens to be there, and the estimate of q too.
    seen = density + generated
    weights = seen / seen.sum()
    shown = np.where(seen > 0.01 * seen.max(), best, np.nan)
    return {
        "x": x,
        "fake": fake,
        "real": real,
        "learned": learned,
        "best": shown,
        "mean": float(fake.mean()),
        "deviation": float(fake.std()),
        "off_best": float(weights @ np.abs(learned - best)),
        "off_half": float(np.abs(on_data - 0.5).mean()),
        "wasserstein": float(stats.wasserstein_distance(fake, real)),
        "jensen_shannon": float(game.jensen_shannon(density, generated, at=x, normalize=True)),
    }


_SHOWN = {
    "mean": "mean of G(z)",
    "deviation": "deviation of G(z)",
    "wasserstein": "Wasserstein-1",
    "jensen_shannon": "JSD",
    "off_best": "|D - D*|",
    "off_half": "|D - 1/2| on data",
}


def _outcome(settings: GameOnALineSettings, found: dict[str, dict[str, Any]]) -> Outcome:
    first, alone, last = found.values()
    return Outcome(
        [
            f"Trained alone for {settings.alone:,} updates, the discriminator comes within {alone['off_best']:.3f} of "
            f"the best one, p/(p + q), on average over both laws ({first['off_best']:.3f} before).",
            f"After {settings.rounds:,} rounds generated points have mean {last['mean']:.2f} and standard deviation "
            f"{last['deviation']:.2f}, the data {settings.mean:g} and {settings.deviation:g}; the Wasserstein distance "
            f"fell from {first['wasserstein']:.2f} to {last['wasserstein']:.2f}.",
            f"On data the discriminator is then {last['off_half']:.3f} from 1/2 on average: "
            + (
                "it cannot tell, which is where the game ends."
                if last["off_half"] < 0.05
                else "the game is not over yet."
            ),
        ],
        [_picture(settings, number, name, one) for number, (name, one) in enumerate(found.items(), start=1)],
        Table(
            "game-on-a-line",
            "Three snapshots",
            ["", *_SHOWN.values()],
            [[name, *(round(one[key], 4) for key in _SHOWN)] for name, one in found.items()],
            caption="JSD between the data's density and a kernel estimate of the generated one, in nats.",
        ),
        {name: {key: one[key] for key in _SHOWN} for name, one in found.items()},
    )


def _picture(settings: GameOnALineSettings, number: int, name: str, one: dict[str, Any]) -> Lines:
    x = one["x"]
    edges = np.linspace(x[0], x[-1], _BINS + 1)
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for label, points in (("data", one["real"]), ("generated", one["fake"])):
        heights = np.histogram(points, edges)[0] / len(points) / np.diff(edges)
        series[label] = (np.repeat(edges, 2), np.concatenate([[0], np.repeat(heights, 2), [0]]))
    series["learned D(x)"] = (x, one["learned"])
    series["best D*(x)"] = (x, one["best"])
    return Lines(
        f"game-on-a-line-{number}",
        f"{name[0].upper()}{name[1:]}",
        "x",
        "density, or probability of being real",
        series,
        caption=f"Histograms of {settings.draws:,} draws each; D* = p/(p + q), with q estimated, where there are any. "
        "At the end of the game both histograms are one and D is 1/2 where they are.",
    )


experiment = Experiment(
    "The adversarial game on a line: histograms, the learned discriminator and the best one, in three snapshots.",
    GameOnALineSettings,
    run,
    toy={"alone": 5, "rounds": 5, "draws": 200, "width": 4, "batch": 16},
    reference="Goodfellow et al., Generative adversarial nets, NeurIPS 2014",
)

__all__ = ["GameOnALineSettings", "experiment", "run"]
