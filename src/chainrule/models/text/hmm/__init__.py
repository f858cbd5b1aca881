"""Hidden Markov model: of series, and of texts, which it writes and judges as language models do."""

from collections.abc import Mapping
from typing import Any

from chainrule.core.types import Key
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.protocol import Entry
from chainrule.models.text.hmm.config import HMMConfig
from chainrule.models.text.hmm.model import HMM
from chainrule.models.text.hmm.text import TextHMM


def build(config: HMMConfig, schema: Schema, key: Key) -> HMM | TextHMM:
    """The model for data of this schema: states that emit tokens, or numbers."""
    return (TextHMM if kinds.of(schema).has_tokens else HMM)(config, schema, key)


def suited(config: HMMConfig, schema: Schema, examples: int | None) -> Mapping[str, Any]:
    """Text takes more states, ends sooner, and tokens that a state has not emitted yet stay possible.

    >>> suited(HMMConfig(), Schema("text", (129,), tokens=("a", "b")), None)
    {'states': 32, 'pseudo_count': 0.1, 'tolerance': 0.0001}
    """
    del config, examples
    texts = {"states": 32, "pseudo_count": 0.1, "tolerance": 1e-4}
    return texts if kinds.of(schema).has_tokens else {}


entry = Entry(
    name="hmm",
    summary="Hidden Markov model of series and texts: states that follow each other and emit what is seen; exact "
    "likelihood.",
    config=HMMConfig,
    build=build,
    kinds=("sequence", "text"),
    targets=("none", "class", "value"),
    data="cycles",
    suited=suited,
    toy={"states": 2},
    toy_data="cycles",
    citation="Baum, Petrie, Soules and Weiss, A maximization technique occurring in the statistical analysis of "
    "probabilistic functions of Markov chains, Annals of Mathematical Statistics 41, 1970",
    training={"steps": 200},
)

__all__ = ["HMM", "HMMConfig", "TextHMM", "build", "entry", "suited"]
