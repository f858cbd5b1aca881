"""The code of music: each event by its probability given those before it, nothing being said of the music."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Int
from chainrule.information.compression.direct import EntryCode, SymbolDistributions
from chainrule.information.compression.distributions import CategoricalSymbols
from chainrule.models.protocol.text import DecodingState

if TYPE_CHECKING:
    from chainrule.models.audio.music.model import MusicModel


def music_code(model: "MusicModel", blank: int) -> EntryCode:
    """Excerpts event by event; `blank` is read before the first. Nothing is said of them: files hold no classes."""
    window = model.schema.shape[0]

    def distributions(rows: int, known: np.ndarray | None) -> SymbolDistributions:
        # Event by event also where all are known: one pass over all of them would give other bits.
        del known
        state: DecodingState = model.start(rows, window)
        symbols = np.full(rows, blank, np.int32)
        for _ in range(window):
            shares, state = _read(model, state, jnp.asarray(symbols[:, None].astype(np.int32)))
            symbols = yield CategoricalSymbols(np.asarray(shares))

    return EntryCode(model.schema, eqx.filter(model, eqx.is_array), distributions, np.arange(window), 1)


@eqx.filter_jit
def _read(
    model: "MusicModel", state: DecodingState, events: Int[Array, "rows 1"]
) -> tuple[Float[Array, "rows events"], DecodingState]:
    logits, state = model.advance(state, events)
    return jax.nn.softmax(logits[:, -1].astype(jnp.float32)), state


__all__ = ["music_code"]
