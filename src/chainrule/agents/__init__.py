"""Agents: decisions, rewards and games.

In state s_t an agent takes a_t and receives r_t and s_{t+1}; its return from t on is the sum of gamma^(k-t) r_k. An
environment that has ended (`terminated`) promises nothing more; one that was cut off (`truncated`) would have gone on,
and is valued by its last observation. The two are separate flags to the last line of every algorithm.
"""

from typing import Any

from chainrule.core.lazy import LazyNames

_LAZY = LazyNames(
    __name__,
    {
        "training.fitting": ("fit", "resume"),
        "training.run": ("AgentRun",),
        "tree_search.reference": ("search",),
    },
    (
        "algorithms",
        "arena",
        "bandits",
        "envs",
        "evaluation",
        "games",
        "learning",
        "mdp",
        "tabular",
        "tree_search",
    ),
)

__all__ = [*_LAZY.names]


def __getattr__(name: str) -> Any:
    return _LAZY.load(name)


def __dir__() -> list[str]:
    return __all__
