"""Position encodings: inner products, rotated products and penalties over distance."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Heatmap, Lines
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn.positions import Distance, Rotary, sinusoids


@final
class PositionsSettings(Settings):
    """The table of positions."""

    width: int = Field(64, ge=2, multiple_of=2, description="entries of a position's vector, or of a head")
    length: int = Field(100, ge=4, le=2000, description="positions")
    base: float = Field(10000.0, gt=1, description="base of the wavelengths")
    heads: int = Field(4, ge=1, le=16, description="heads whose penalties are drawn")
    seed: int = Field(0, ge=0, description="the vector that is rotated")


def run(settings: PositionsSettings, listener: Listener) -> Outcome:
    """Inner products between all positions, and how three kinds of position fall with the distance."""
    n = settings.length
    table = np.asarray(sinusoids(jnp.arange(n), settings.width, base=settings.base), np.float64)
    products = table @ table.T
    spread = max(float(np.ptp(np.diagonal(products, offset))) for offset in range(n))
    listener(f"inner products at equal distance differ by {spread:.2g} at most")
    vector = jax.random.normal(random.key(settings.seed, "vector"), (1, settings.width))
    turned = Rotary(settings.base).turned(jnp.broadcast_to(vector, (n, settings.width)), jnp.arange(n))
    rotated = np.asarray(turned @ turned[0])
    penalty = np.asarray(Distance().bias(settings.heads, jnp.zeros(1, int), jnp.arange(n))[:, 0])
    apart = np.arange(n, dtype=float)
    size = settings.width / 2
    half = int(np.argmax(products[0] < size / 2)) if (products[0] < size / 2).any() else n
    return Outcome(
        [
            f"Every position's vector has squared length {products[0, 0]:.4g} = width / 2, and the inner product of "
            f"two depends on their distance alone (largest difference {spread:.1g}).",
            f"It has fallen to half at a distance of {half}."
            if half < n
            else f"It stays above half over all {n} distances.",
            f"A vector rotated by its position has the same product at the same distance; from {rotated[0]:.3g} at 0 "
            f"to {rotated[-1]:.3g} at {n - 1}.",
        ],
        [
            Heatmap(
                "positions-products",
                "Inner products of position vectors",
                "position",
                "position",
                products,
            ),
            Lines(
                "positions-distance",
                "Inner product by distance",
                "distance",
                "inner product, as a share of that at 0",
                {
                    "sines and cosines": (apart, products[0] / products[0, 0]),
                    "rotary": (apart, rotated / rotated[0]),
                },
            ),
            Lines(
                "positions-penalty",
                "Penalty by distance, one line for each head",
                "distance",
                "added to the score",
                {f"head {i + 1}": (apart, row) for i, row in enumerate(penalty)},
            ),
        ],
        None,
        {
            "squared_length": float(products[0, 0]),
            "spread": spread,
            "half_at": half,
            "by_distance": products[0].tolist(),
        },
    )


experiment = Experiment(
    "What positions tell apart: sines and cosines, rotations and penalties, by distance.",
    PositionsSettings,
    run,
    toy={"width": 8, "length": 12},
    reference="Vaswani et al., Attention is all you need, 2017, arXiv:1706.03762; Su et al., RoFormer, 2021, "
    "arXiv:2104.09864; Press, Smith and Lewis, Train short, test long, 2022, arXiv:2108.12409",
)

__all__ = ["PositionsSettings", "experiment", "run"]
