"""Log-probabilities of texts of any length, many at once.

Texts of similar length go together, padded on the right to a common width: what comes after a text cannot change what
was said about it before, so padding is left out of the sum and of nothing else.
"""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Int
from chainrule.data.text.packing import buckets, padded_right
from chainrule.models.text.language_model import LanguageModel

_TOGETHER = 64
"""Texts that are judged at once."""


def log_probs(
    model: LanguageModel, texts: Sequence[str], *, allow_special: bool = False
) -> Float[np.ndarray, " texts"]:
    """The log-probability of each text in nats, given its first token (or the mark that stands before all texts).

    With `allow_special`, names of special tokens in the texts become these tokens.

    ```python
    run = cr.Run.open("runs/shakespeare-gpt-001")
    log_probs(run.model, ["To be, or not to be", "To be, or not to bee"])
    ```
    """
    first = [] if model.tokenizer.start is None else [model.tokenizer.start]
    rows = [
        np.array([*first, *model.tokenizer.encode(text, allow_special=allow_special)], np.int32)
        for text in texts
    ]
    for number, row in enumerate(rows):
        if len(row) < 1 or (model.context is not None and len(row) > model.context + 1):
            raise ArgumentError(
                f"texts[{number}] has {len(row)} tokens; it must have at least one"
                + ("" if model.context is None else f" and {model.context + 1} at most"),
                remedy="leave it out" if not len(row) else "cut it, or use a model with a longer context",
            )
    found = np.zeros(len(rows))
    longest = np.inf if model.context is None else model.context + 1
    for width, members in buckets([len(row) for row in rows]).items():
        for start in range(0, len(members), _TOGETHER):
            chosen = members[start : start + _TOGETHER]
            tokens, padding = padded_right([rows[i] for i in chosen], int(min(width, longest)))
            nats = np.asarray(_surprisal(model, jnp.asarray(tokens)), np.float64)
            kept = np.arange(nats.shape[1])[None, :] < nats.shape[1] - padding[:, None]
            found[chosen] = -np.where(kept, nats, 0.0).sum(axis=1)
    return found


@eqx.filter_jit
def _surprisal(model: LanguageModel, x: Int[Array, "batch tokens"]) -> Float[Array, "batch predicted"]:
    return model.surprisal(x)


__all__ = ["log_probs"]
