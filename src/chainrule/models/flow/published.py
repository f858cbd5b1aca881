"""Bits per dimension of a flow beside those that were published for the same images.

Figures as listed by Grathwohl et al. (FFJORD, ICLR 2019) and Ho et al. (Flow++, ICML 2019): 8-bit images, uniform noise
between levels but for Flow++, whose noise is learned. MNIST is read by some with another test split or padding; figures
that differ by a few hundredths are no verdict.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Bars, Picture
from chainrule.core.types import Array, Float, Key
from chainrule.data.dataset import Data

_EXAMPLES = 512


class Published(NamedTuple):
    """The images that figures were published for, and the figures."""

    shape: tuple[int, ...]
    bits: dict[str, float]


PUBLISHED = {
    "mnist": Published((28, 28, 1), {"RealNVP": 1.06, "Glow": 1.05, "FFJORD": 0.99}),
    "cifar10": Published((32, 32, 3), {"RealNVP": 3.49, "Glow": 3.35, "FFJORD": 3.40, "Flow++": 3.08}),
}
_LEVELS = 256


def pictures(
    data: Data, key: Key, bound: Callable[[Array, Key], Float[Array, " batch"]]
) -> Sequence[Picture]:
    """A bar for this flow and one for each published figure, where there are any; `bound` is that of log p."""
    known = PUBLISHED.get(data.name)
    if known is None or (data.schema.shape, data.schema.levels) != (known.shape, _LEVELS):
        return []
    split, _ = data.held_out()
    x = jnp.asarray(split.batch(np.arange(min(_EXAMPLES, len(split)))).x, jnp.float32)
    own = np.asarray(data.bits_per_dim(eqx.filter_jit(bound)(x, key)))
    errors = np.array([own.std() / len(own) ** 0.5, *(0.0 for _ in known.bits)])
    return [
        Bars(
            "published-bits",
            "Beside published flows",
            "flow",
            "bits per dimension",
            ["this one", *known.bits],
            {"test images": np.array([own.mean(), *known.bits.values()])},
            errors={"test images": errors},
            caption=f"An upper bound of the code length, of the first {len(own)} held-out images here; the others as "
            "published, of all of them. Lower is better.",
        )
    ]


__all__ = ["PUBLISHED", "Published", "pictures"]
