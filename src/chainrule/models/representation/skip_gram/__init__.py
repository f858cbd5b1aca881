"""Skip-gram: word vectors."""

from chainrule.models.protocol import Entry
from chainrule.models.representation.skip_gram.model import SkipGram, SkipGramConfig

entry = Entry(
    name="skip-gram",
    summary="Vectors of words, learnt by telling their neighbours from words drawn at random.",
    config=SkipGramConfig,
    build=SkipGram,
    kinds=("text",),
    targets=("none",),
    data="shakespeare",
    toy={"embedding": 8, "reach": 2, "negatives": 2},
    toy_data="shakespeare",
    citation="Mikolov et al., Distributed representations of words and phrases and their compositionality, 2013",
    training={
        "batch": 16,
        "steps": 2000,
        "optimizer": {"name": "adam", "lr": 3e-3},
    },
    former_arrays={"symbols": "embedding"},
)

__all__ = ["SkipGram", "SkipGramConfig", "entry"]
