"""Tree search: what a network says of a position at first sight, and what a tree search makes of it."""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents import AgentRun
from chainrule.agents.games.base import Game
from chainrule.agents.games.boards import BoardGame
from chainrule.agents.tree_search.reference import SearchResult, search
from chainrule.core.formatting import number
from chainrule.core.pictures import Bars, Picture, Slides, Table
from chainrule.explain.agent_probes import AgentProbe
from chainrule.explain.methods.search_drawings import search_tree
from chainrule.explain.protocol import Outcome, Settings

_MOST_MOVES = 12


@final
class TreeSearchSettings(Settings):
    """The position, and how far to look."""

    moves: str = Field(
        "", description="moves that lead to the position, with commas: b2,a1; none: the first one"
    )
    simulations: int = Field(200, ge=1, le=100_000, description="positions the search looks at")
    c: float = Field(
        1.0, ge=0, le=100, description="how much the search follows what the network says at first"
    )
    agent: int | None = Field(None, ge=0, description="which of the agents; the best unless told")


def examine(run: AgentRun, settings: TreeSearchSettings) -> Outcome:
    """Search the position, and show the root of the tree."""
    game: Game[Any] = run.source
    state = game.init()
    for move in [word.strip() for word in settings.moves.split(",") if word.strip()]:
        state = game.play(state, move)
    thinks = jax.jit(run.evaluator(settings.agent))

    def evaluate(one: Any) -> tuple[np.ndarray, float]:
        prior, value = thinks(jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], one))
        return np.asarray(prior[0]), float(value[0])

    found = search(game, state, evaluate, simulations=settings.simulations, c=settings.c, temperature=0.0)
    root = found.tree
    order = [int(a) for a in np.argsort(-found.visits, kind="stable") if root.prior[a] > 0][:_MOST_MOVES]
    names = [game.move_name(action) for action in order]
    bonus = settings.c * root.prior * np.sqrt(1 + root.visits.sum()) / (1 + root.visits)
    rows: list[list[str | float | int]] = [
        [name, int(found.visits[a]), float(found.q[a]), float(bonus[a]), float(root.prior[a])]
        for name, a in zip(names, order, strict=True)
    ]
    line = " ".join(game.move_name(action) for action in found.principal_variation)
    share = found.visits / found.visits.sum()
    first = game.move_name(int(root.prior.argmax()))
    return Outcome(
        [
            f"At first sight the network would play {first} and values the position {number(root.value)}; after "
            f"{settings.simulations} simulations the search plays {names[0]} and values it {number(found.value)} "
            "(1: who is to move wins for sure).",
            f"Best play as the search sees it: {line}.",
        ],
        [
            *_board(game, state, found),
            Slides(
                "tree",
                "The tree of the search",
                [search_tree(root, game.move_name, settings.c, "a search tree").to_svg()],
                ["The most visited moves, and those after them"],
                "N: visits; Q: mean value for who makes the move, green where it is good for them; U: what is added "
                "when the next move is chosen; P: prior of the network. Thick lines: many visits.",
            ),
            Bars(
                "moves",
                "Before and after the search",
                "move",
                "probability",
                names,
                {"network": root.prior[order], "search": share[order]},
            ),
        ],
        Table("root", "The root of the tree", ["move", "visits", "Q", "U", "prior"], rows),
        {
            "visits": {game.move_name(int(a)): int(found.visits[a]) for a in np.flatnonzero(found.visits)},
            "value": found.value,
            "network_value": root.value,
            "variation": line.split(),
        },
    )


def _board(game: Game[Any], state: Any, found: SearchResult) -> list[Picture]:
    """The board, shaded by visits where actions are its cells; then the positions of best play."""
    if not isinstance(game, BoardGame):
        return []
    height, width = game.board_shape
    drawings, notes, here = [], [], state
    node = found.tree
    while True:
        heat = None
        if node.visits.any() and game.actions in (height * width, height * width + 1):
            heat = (node.visits / node.visits.max())[: height * width].reshape(height, width)
        drawings.append(game.render(here, heat).to_svg())
        step = len(drawings) - 1
        notes.append("The position" if not step else f"{step} of best play")
        if not node.visits.any() or step == _MOST_MOVES:
            break
        action = int(node.visits.argmax())
        notes[-1] += f"\nnext: {game.move_name(action)}, looked at {int(node.visits[action])} times"
        here, node = node.children[action].state, node.children[action]
    return [
        Slides(
            "board",
            "The position, and how the game may go on",
            drawings,
            notes,
            "Shade: visits of the search.",
        )
    ]


probe = AgentProbe(
    "what a network says of a position, and what a tree search makes of it: visits, values, best play",
    "a game that is played by search",
    lambda run: run.of_game,
    examine,
    TreeSearchSettings,
    toy={"simulations": 8},
)

__all__ = ["TreeSearchSettings", "examine", "probe"]
