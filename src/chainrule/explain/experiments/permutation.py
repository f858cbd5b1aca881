"""Attention under permutations of its input, with and without positions and masks."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Bars, Table
from chainrule.explain.methods.permutation import permutation_equivariance, permutation_invariance
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn.attention import SelfAttention, TransformerBlock
from chainrule.nn.positions import Distance, Rotary, sinusoids


@final
class PermutationSettings(Settings):
    """The block and the sequences."""

    width: int = Field(32, ge=8, multiple_of=8, description="width of the block, with four heads")
    length: int = Field(12, ge=2, le=512, description="positions")
    repeats: int = Field(8, ge=1, le=100, description="permutations tried")
    seed: int = Field(0, ge=0, description="weights and inputs")


def run(settings: PermutationSettings, listener: Listener) -> Outcome:
    """Permute the positions of random sequences and see what follows and what does not."""
    key = random.key(settings.seed, "weights")
    width, n = settings.width, settings.length
    x = jax.random.normal(random.key(settings.seed, "inputs"), (4, n, width))
    where = sinusoids(jnp.arange(n), width)[None]

    def block(**options: Any) -> Callable[[jax.Array], jax.Array]:
        return eqx.filter_jit(TransformerBlock(width, heads=4, deviation=width**-0.5, key=key, **options))

    plain = block()
    maps: dict[str, Callable[[jax.Array], jax.Array]] = {
        "attention": eqx.filter_jit(SelfAttention(width, heads=4, key=key)),
        "block": plain,
        "block, sines and cosines": lambda x: plain(x + where),
        "block, rotary": block(positions=Rotary()),
        "block, penalties": block(positions=Distance()),
        "block, causal": block(causal=True),
    }
    rows: list[list[Any]] = []
    for name, f in maps.items():
        equivariance = float(permutation_equivariance(f, x, repeats=settings.repeats).mean())
        pooled = lambda x, f=f: f(x).mean(axis=1)  # noqa: E731
        invariance = float(permutation_invariance(pooled, x, repeats=settings.repeats).mean())
        rows.append([name, equivariance, invariance])
        listener(f"{name}: {equivariance:.2g} off after a permutation")
    blind = [row[0] for row in rows if row[1] < 1e-4]
    least = min((row for row in rows if row[1] >= 1e-4), key=lambda row: row[1])
    return Outcome(
        [
            f"Order means nothing to {' and '.join(blind)}: permuting the input permutes the output, to within "
            f"{max(row[1] for row in rows if row[0] in blind):.1g}.",
            f"Positions and masks change that; the least ({least[0]}) by {least[1]:.1%}, relative to the output.",
        ],
        [
            Bars(
                "permutation",
                "What a permutation of the input changes",
                "",
                "relative change",
                [row[0] for row in rows],
                {
                    "position by position": np.array([row[1] for row in rows]),
                    "mean over positions": np.array([row[2] for row in rows]),
                },
            )
        ],
        Table(
            "permutation-table", "Relative change", ["map", "equivariance", "invariance of the mean"], rows
        ),
        {row[0]: {"equivariance": row[1], "invariance": row[2]} for row in rows},
    )


experiment = Experiment(
    "What order means to attention, with and without positions and masks.",
    PermutationSettings,
    run,
    toy={"width": 8, "length": 4, "repeats": 1},
    reference="Lee et al., Set transformer, 2019, arXiv:1810.00825",
)

__all__ = ["PermutationSettings", "experiment", "run"]
