"""Adversarial examples: what is attacked, attacks as values, how they are carried out, and functions to call."""

from chainrule.explain.methods.attacks.aim import Aim, Attacked, Victim, aimed, raw_bounds, victim_of
from chainrule.explain.methods.attacks.attack import (
    Attack,
    AutomaticSteps,
    Iterated,
    RandomNoise,
    SingleStep,
    SquareSearch,
)
from chainrule.explain.methods.attacks.carrying_out import attacked, probabilities, smallest_radii, stations
from chainrule.explain.methods.attacks.functions import auto_pgd, fgsm, pgd, smallest_eps, square_attack

__all__ = [
    "Aim",
    "Attack",
    "Attacked",
    "AutomaticSteps",
    "Iterated",
    "RandomNoise",
    "SingleStep",
    "SquareSearch",
    "Victim",
    "aimed",
    "attacked",
    "auto_pgd",
    "fgsm",
    "pgd",
    "probabilities",
    "raw_bounds",
    "smallest_eps",
    "smallest_radii",
    "square_attack",
    "stations",
    "victim_of",
]
