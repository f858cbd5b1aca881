"""Shapley values of tokens: what each token of a text adds to the log-probability of the one after it.

Absent tokens are those of other passages at the same positions, so that a text keeps its length and its kind; the
token that is predicted is always there.
"""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.explain.methods.prompts import tokens_of
from chainrule.explain.methods.shapley.explaining import shapley
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.explain.methods.shapley.maskers.masker import fingerprint_of
from chainrule.explain.methods.shapley.maskers.replacing import Replacing
from chainrule.models.protocol import HasSurprisal, Model
from chainrule.train import Run


@final
class LastToken(eqx.Module):
    """The log-probability of the last token of texts, given those before it."""

    model: Any

    def __call__(self, tokens: Int[Array, "batch time"]) -> Float[Array, "batch 1"]:
        """In nats."""
        return -self.model.surprisal(tokens)[:, -1:]


def reads_tokens(model: Model, schema: Schema) -> bool:
    """Whether a model predicts text token by token."""
    return isinstance(model, HasSurprisal) and kinds.of(schema).has_tokens


def token_values(
    run: Run,
    data: Data,
    text: str = "",
    *,
    tokens: int = 16,
    background: int = 8,
    method: str = "auto",
    budget: int | None = None,
    tol: float = 0.01,
    seed: int = 0,
) -> tuple[Explanation, list[str]]:
    """Values of all tokens but the last of a text, or of the first held-out passage; and the tokens as text."""
    most = run.schema.shape[0]
    part, _ = data.held_out()
    if text:
        own = tokens_of(run.schema, text, most=most)
    else:
        own = np.asarray(part.batch(np.arange(1)).x)[0, : min(tokens, most)]
    passages = np.asarray(
        data.train.batch(np.unique(np.linspace(0, len(data.train) - 1, background).astype(int))).x
    )
    if passages.shape[1] < len(own):
        raise ArgumentError(
            f"text: {len(own)} tokens, training passages have {passages.shape[1]}", remedy="shorten it"
        )
    others = passages[:, : len(own)].astype(own.dtype)
    written = tokenizers.of(run.schema)
    pieces = [str(written.decode(np.array([token]))) for token in own]
    before = len(own) - 1
    masker = Replacing(
        replacements=jnp.asarray(others),
        weights=jnp.full(len(others), 1 / len(others)),
        owners=jnp.asarray(np.append(np.arange(before), -1)),
        names=tuple(f"{i + 1}: {piece}" for i, piece in enumerate(pieces[:-1])),
        kind=f"tokens of {len(others)} other passages",
        fingerprint=fingerprint_of(others),
    )
    title = f"log-probability of {pieces[-1]!r}"
    found = shapley(
        LastToken(run.model),
        own,
        method=method,
        absent=masker,
        output=0,
        output_names=[title],
        budget=budget,
        tol=tol,
        seed=seed,
    )
    return found, pieces


__all__ = ["LastToken", "reads_tokens", "token_values"]
