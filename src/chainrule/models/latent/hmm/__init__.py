"""Hidden Markov model."""

from chainrule.models.latent.hmm.model import HMM, HMMConfig
from chainrule.models.protocol import Entry

entry = Entry(
    name="hmm",
    summary="Hidden Markov model of series: states that follow each other and emit what is seen; exact likelihood.",
    config=HMMConfig,
    build=HMM,
    kinds=("sequence",),
    targets=("none", "class", "value"),
    data="cycles",
    toy={"states": 2},
    toy_data="cycles",
    citation="Baum, Petrie, Soules and Weiss, A maximization technique occurring in the statistical analysis of "
    "probabilistic functions of Markov chains, Annals of Mathematical Statistics 41, 1970",
    training={"steps": 200},
)

__all__ = ["HMM", "HMMConfig", "entry"]
