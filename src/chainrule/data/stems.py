"""Sources that are mixed as training asks for them: every mixture is the sum of what a model is to find in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.data.batches import Batch
from chainrule.data.splits import Change, Split

_DECIBELS = 6.0
"""How much louder or softer a source may become in a new mixture."""


@final
@dataclass(frozen=True, repr=False)
class Stems(Split):
    """Sources `arrays["y"]` of shape (examples, sources, samples, channels); an example is their sum.

    With `remix` training hears every source beside those of other examples of its batch, each a little louder or
    softer; everybody else hears what belongs together.
    """

    arrays: Mapping[str, np.ndarray]
    remix: bool = False

    def __len__(self) -> int:
        return len(self.arrays["y"])

    @property
    def changes(self) -> bool:
        """Where sources are mixed anew."""
        return self.remix

    @property
    def change(self) -> Change:
        """New mixtures."""
        return Change("sources are mixed anew", "use data.remix=false, or a lower data.rate")

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Mixtures by number, with their sources."""
        y = arrays["y"][index]
        return Batch(y.sum(axis=1), y)

    def fresh(self, arrays: Mapping[str, Any], index: Any, key: Any) -> Batch:
        """The sources with these numbers in other company."""
        if not self.remix:
            return self.gather(arrays, index)
        import jax  # inside a compiled step it is there; to read data it is not needed

        y = arrays["y"][index]
        orders, louder = jax.random.split(key)
        keys = jax.random.split(orders, y.shape[1])
        rows = jax.vmap(lambda one: jax.random.permutation(one, y.shape[0]), out_axes=1)(keys)
        mixed = y[rows, np.arange(y.shape[1])[None, :]]
        gains = jax.random.uniform(louder, y.shape[:2], y.dtype, -_DECIBELS, _DECIBELS)
        mixed = mixed * (10 ** (gains / 20))[:, :, None, None]
        return Batch(mixed.sum(axis=1), mixed)


__all__ = ["Stems"]
