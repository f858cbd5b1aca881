"""Markov reward and decision processes of few states, solved exactly."""

from typing import Any

from chainrule.core.lazy import LazyNames

# Environments take the cat world's arrays from here, and enumeration takes environments: names are loaded when used.
_LAZY = LazyNames(
    __name__,
    {
        "enumeration": ("EnumeratedEnvironment", "enumerated", "optimal_return"),
        "horizon": ("HorizonSolution", "finite_horizon"),
        "gradient": ("expected_return", "policy_gradient"),
        "policies": ("PolicyValues", "evaluate"),
        "reward_process": ("RewardProcess", "SimulatedReturns"),
        "solving": ("DecisionSolution", "solve"),
        "value_iteration": ("sweeps",),
    },
    ("cat_world",),
)

__all__ = [*_LAZY.names]


def __getattr__(name: str) -> Any:
    return _LAZY.load(name)


def __dir__() -> list[str]:
    return __all__
