"""Naive Bayes for bits, levels and tokens."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.naive_bayes.model import NaiveBayes, NaiveBayesConfig, examined

entry = Entry(
    name="naive-bayes",
    summary="Naive Bayes: classes of bits, levels or texts, learnt by counting, with an exact likelihood.",
    config=NaiveBayesConfig,
    build=NaiveBayes,
    kinds=("image", "points", "table", "sequence", "text"),
    targets=("class",),
    data="binary-digits",
    measured=examined,
    toy={},
    toy_data="binary-digits",
    citation="Maron, Automatic indexing: an experimental inquiry, Journal of the ACM 8, 1961",
    training={"steps": 1},
)

__all__ = ["NaiveBayes", "NaiveBayesConfig", "entry"]
