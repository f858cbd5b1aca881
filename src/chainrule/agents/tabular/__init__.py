"""Tabular learning: a number for every state and action, learnt step by step in one compiled loop."""

from chainrule.agents.tabular.behaviour import Behaviour, EpsilonGreedyBehaviour, SoftmaxBehaviour
from chainrule.agents.tabular.learner import (
    TabularHyper,
    TabularLearner,
    TabularPolicy,
    TabularState,
    TabularTrace,
)
from chainrule.agents.tabular.prediction import td_values
from chainrule.agents.tabular.rules import (
    DoubleQLearning,
    ExpectedSarsa,
    NStepSarsa,
    QLearning,
    Sarsa,
    TabularRule,
)

__all__ = [
    "Behaviour",
    "DoubleQLearning",
    "EpsilonGreedyBehaviour",
    "ExpectedSarsa",
    "NStepSarsa",
    "QLearning",
    "Sarsa",
    "SoftmaxBehaviour",
    "TabularHyper",
    "TabularLearner",
    "TabularPolicy",
    "TabularRule",
    "TabularState",
    "TabularTrace",
    "td_values",
]
