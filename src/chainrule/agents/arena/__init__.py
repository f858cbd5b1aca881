"""Arena: opponents, matches, ratings, records of games, and a game in progress for people."""

from typing import Any

from chainrule.core.lazy import LazyNames

_LAZY = LazyNames(
    __name__,
    {
        "lines": ("LineCounts", "every_line"),
        "matches": ("Match", "play_match", "tournament"),
        "opponents": (
            "FunctionOpponent",
            "MinimaxOpponent",
            "Opponent",
            "RandomOpponent",
            "SearchOpponent",
            "greedy",
            "playouts",
        ),
        "rating": ("Gate", "Rating", "elo_of_share", "gate", "ratings"),
        "records": ("GameRecord", "load_record", "read_sgf", "save_record", "write_sgf"),
        "session": ("Hint", "Session"),
    },
)

__all__ = [*_LAZY.names]


def __getattr__(name: str) -> Any:
    return _LAZY.load(name)


def __dir__() -> list[str]:
    return __all__
