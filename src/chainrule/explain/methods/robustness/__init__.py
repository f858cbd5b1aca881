"""Robustness: accuracy against attacks of every kind, alarms where gradients are masked, and attacks that transfer."""

from chainrule.explain.methods.robustness.alarms import SUSPECTED, alarms
from chainrule.explain.methods.robustness.report import Robustness, attacks_of, examined, robustness
from chainrule.explain.methods.robustness.transfer import Transfer, transfer_attack, transferred

__all__ = [
    "SUSPECTED",
    "Robustness",
    "Transfer",
    "alarms",
    "attacks_of",
    "examined",
    "robustness",
    "transfer_attack",
    "transferred",
]
