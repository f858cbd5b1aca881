"""Bandits: choosing among arms of unknown reward, and what is missed while finding out."""

from chainrule.agents.bandits.playing import BanditTrace, RegretCurve, play, regret
from chainrule.agents.bandits.problems import BanditProblem, BernoulliArms, NormalArms
from chainrule.agents.bandits.strategies import (
    UCB1,
    BanditStrategy,
    EpsilonGreedyArms,
    GradientBandit,
    ThompsonBernoulli,
    ThompsonNormal,
)

__all__ = [
    "UCB1",
    "BanditProblem",
    "BanditStrategy",
    "BanditTrace",
    "BernoulliArms",
    "EpsilonGreedyArms",
    "GradientBandit",
    "NormalArms",
    "RegretCurve",
    "ThompsonBernoulli",
    "ThompsonNormal",
    "play",
    "regret",
]
