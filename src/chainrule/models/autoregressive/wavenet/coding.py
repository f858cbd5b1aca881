"""The code of WaveNet for series of levels, such as sound: the cell of mu-law of each value, then its place in it."""

from typing import TYPE_CHECKING, Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array
from chainrule.information.compression.coders import EntropyCoder
from chainrule.information.compression.codes import LEVELS_WANTED
from chainrule.information.compression.direct import EntryCode, SymbolDistributions
from chainrule.information.compression.distributions import (
    CategoricalSymbols,
    SymbolDistribution,
    Symbols,
    UniformSymbols,
)
from chainrule.models.autoregressive.wavenet.mu_law import MuLawOutput

if TYPE_CHECKING:
    from chainrule.models.autoregressive.wavenet.model import WaveNet


def series_code(model: "WaveNet") -> EntryCode:
    """The code of series of levels, a step after another at the cost of one step."""
    output, schema = model.output, model.schema
    if not isinstance(output, MuLawOutput) or not schema.levels:
        raise CapabilityError(
            "the model was trained on continuous numbers, which have no probabilities",
            remedy=LEVELS_WANTED,
        )
    steps, features = schema.shape
    of_grid, counts = output.grid_points()
    weights = eqx.filter(model, eqx.is_array)

    def distributions(rows: int, known: np.ndarray | None) -> SymbolDistributions:
        # Step by step also where all is known: one pass over all of it would give other bits.
        del known
        shares, queues = _begun(model, rows)
        for step in range(steps):
            values, now = np.zeros((rows, features), np.float32), np.asarray(shares)
            for feature in range(features):
                symbols = yield CellsThenPoints(now[:, feature], of_grid, counts)
                values[:, feature] = symbols.astype(np.float32) / np.float32(schema.levels - 1)
            if step + 1 < steps:
                shares, queues = _stepped(model, queues, jnp.asarray(values))

    return EntryCode(schema, weights, distributions, np.arange(schema.dimensions), 1)


@final
class CellsThenPoints(SymbolDistribution):
    """Which cell, by its probability, then which of its points, all alike; cells are neighbours without gaps."""

    def __init__(
        self,
        shares: Float[np.ndarray, "rows cells"],
        of_point: Int[np.ndarray, " points"],
        counts: Int[np.ndarray, " cells"],
    ) -> None:
        self.shares, self.of_point, self.counts = shares, of_point, counts
        self._starts = np.cumsum(counts) - counts

    def first(self, rows: int) -> "CellsThenPoints":
        """That of the first so many rows."""
        return CellsThenPoints(self.shares[:rows], self.of_point, self.counts)

    def put(self, coder: EntropyCoder, symbols: Symbols) -> None:
        """A queue gives the cell back first."""
        cells = self.of_point[symbols]
        CategoricalSymbols(self.shares).put(coder, cells)
        UniformSymbols(self.counts[cells]).put(coder, symbols - self._starts[cells])

    def take(self, coder: EntropyCoder) -> Symbols:
        """The cell, then the point."""
        cells = CategoricalSymbols(self.shares).take(coder)
        counts = self.counts[cells]
        # A damaged stream may name a cell without points; the checksum of the data tells.
        points = UniformSymbols(np.maximum(counts, 1)).take(coder)
        return np.minimum(self._starts[cells] + points, len(self.of_point) - 1).astype(np.int32)

    def bits(self, symbols: Symbols) -> Float[np.ndarray, " rows"]:
        """Those of the cell and of the place in it."""
        cells = self.of_point[symbols]
        return CategoricalSymbols(self.shares).bits(cells) + np.log2(self.counts[cells])

    def drawn(self, draw: np.random.Generator) -> Symbols:
        """A cell, then a point of it."""
        cells = CategoricalSymbols(self.shares).drawn(draw)
        return (self._starts[cells] + draw.integers(0, np.maximum(self.counts[cells], 1))).astype(np.int32)


@eqx.filter_jit
def _begun(model: "WaveNet", rows: int) -> tuple[Array, Any]:
    found, queues = model.begun(jnp.zeros((rows, 0, model.schema.shape[1])))
    return _shares(model, found), queues


@eqx.filter_jit
def _stepped(model: "WaveNet", queues: Any, values: Array) -> tuple[Array, Any]:
    found, queues = model.step(queues, values)
    return _shares(model, found), queues


def _shares(model: "WaveNet", parameters: Array) -> Array:
    assert isinstance(model.output, MuLawOutput)
    return model.output.shares(parameters)


__all__ = ["CellsThenPoints", "series_code"]
