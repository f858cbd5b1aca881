"""Pictures of a hidden Markov model of text: what each state writes, and the states of a passage."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from chainrule.core.pictures import Heatmap, Picture, Table
from chainrule.data.text.tokenizers.tokenizer import Tokenizer
from chainrule.models.text.hmm import pictures
from chainrule.networks.pictures import tokens as token_pictures
from chainrule.probability import HiddenMarkov, markov

_LISTED = 8
"""Tokens and next states of a row of the table."""
_LEAST = 0.01
"""What is less likely than this is not listed."""


def all_of(
    hidden: HiddenMarkov, tokenizer: Tokenizer, passage: Int[np.ndarray, " tokens"]
) -> Sequence[Picture]:
    """Every picture; `passage` is a held-out one, of which the first tokens are shown."""
    return [states(hidden, tokenizer), path(hidden, tokenizer, passage), pictures.transitions(hidden)]


def states(hidden: HiddenMarkov, tokenizer: Tokenizer) -> Picture:
    """What each state emits most, how often it comes, and what follows it."""
    emission = np.exp(np.asarray(hidden.emission.log_probs, np.float64))  # type: ignore[attr-defined]
    transition = np.asarray(hidden.transition, np.float64)
    basis = markov.stationary_basis(transition)
    share = basis[0] if len(basis) == 1 else np.full(hidden.states, np.nan)
    names = token_pictures.names(tokenizer, np.arange(emission.shape[1]))
    order = np.argsort(-share, kind="stable")
    rows = [
        (
            str(state),
            f"{share[state]:.1%}" if np.isfinite(share[state]) else "",
            _listed(emission[state], names),
            _listed(transition[state], [str(k) for k in range(hidden.states)]),
        )
        for state in order
    ]
    return Table(
        "states",
        "What each state emits and what follows it",
        ("state", "share of the text", "tokens, % of what it emits", "next states, %"),
        rows,
        caption="Nothing told the model of letters and words: states are what makes the text most likely. "
        "· stands for a space, ⏎ for the end of a line.",
    )


def path(hidden: HiddenMarkov, tokenizer: Tokenizer, passage: Int[np.ndarray, " tokens"]) -> Picture:
    """The probability of each state at each token of a passage."""
    shown = passage[: token_pictures.LONGEST]
    return Heatmap(
        "posterior",
        "Which state wrote which token",
        "token",
        "state",
        np.asarray(hidden.posterior(shown)).T,
        rows=[str(k) for k in range(hidden.states)],
        columns=token_pictures.names(tokenizer, shown),
        caption="The probability of each state at each token of a held-out passage, given all that is shown of it.",
    )


def _listed(chances: np.ndarray, names: Sequence[str]) -> str:
    """The likeliest outcomes with their probabilities in per cent."""
    first = np.argsort(-chances, kind="stable")[:_LISTED]
    return " | ".join(f"{names[i]} {100 * chances[i]:.0f}" for i in first if chances[i] >= _LEAST)


__all__ = ["all_of", "path", "states"]
