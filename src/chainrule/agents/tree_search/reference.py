"""Monte-Carlo tree search with a prior and a value, to be read: one position, plain Python.

A simulation walks down from the root, at every node to the move with the largest Q + U, where
U(a) = c P(a) sqrt(1 + sum_b N(b)) / (1 + N(a)): N counts visits, Q = W / N is the mean of the values behind a move, and
P is the prior of the evaluation. The 1 under the root keeps the prior alive where nothing has been visited yet. It
ends at a position that is new, which is evaluated, or at the end of a game, which counts as it is. On the way back the
value changes its sign wherever the players change. Values lie in [-1, 1] and are seen by who is to move.

The compiled search of `fast` visits the same nodes of a tree; tests compare the two. Reference: Silver et al.,
"Mastering the game of Go without human knowledge" (2017).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.games.base import Game
from chainrule.agents.tree_search.prior import Noise, check_noise, visit_policy, with_noise
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key

Evaluate: TypeAlias = Callable[[Any], tuple[Any, Any]]
"""From a state to a prior (a number for each action) and a value for who is to move."""

TIE = 1e-6
"""Moves that fall short of the best by less count as equal; the first of them is taken."""


@final
@dataclass
class SearchNode:
    """A position, and what is known of each move."""

    state: Any
    player: int
    value: float
    """For who is to move: as it was evaluated, or as the game ended."""
    over: bool
    prior: np.ndarray
    visits: np.ndarray
    totals: np.ndarray
    children: dict[int, "SearchNode"] = field(default_factory=dict)

    @property
    def q(self) -> np.ndarray:
        """Mean value behind each move, 0 where it has not been visited."""
        return self.totals / np.maximum(self.visits, 1)

    def select(self, c: float) -> int:
        """The move to look at next."""
        bonus = c * self.prior * np.sqrt(1 + self.visits.sum()) / (1 + self.visits)
        scores = np.where(self.prior > 0, self.q + bonus, -np.inf)
        return int(np.flatnonzero(scores >= scores.max() - TIE)[0])


@final
@dataclass(frozen=True)
class SearchResult:
    """What a search found out about a position."""

    visits: np.ndarray
    """How often each move was looked at; together, the number of simulations."""
    policy: np.ndarray
    """Probability of playing each move."""
    value: float
    """Of the position, for who is to move: the mean of all simulations."""
    q: np.ndarray
    """Of each move, for who makes it; 0 where it was not looked at."""
    action: int
    """The move to play: drawn from the policy where there was a key, else its first maximum."""
    tree: SearchNode

    @property
    def principal_variation(self) -> tuple[int, ...]:
        """The moves of best play as the search sees it: the most visited move of every node."""
        moves, node = [], self.tree
        while node.visits.any():
            moves.append(int(node.visits.argmax()))
            node = node.children[moves[-1]]
        return tuple(moves)


def search(
    game: Game[Any],
    state: Any,
    evaluate: Evaluate,
    *,
    simulations: int,
    c: float = 1.0,
    temperature: float = 1.0,
    noise: Noise | None = None,
    key: Key | None = None,
    transpositions: bool = True,
) -> SearchResult:
    """Monte-Carlo tree search from a state.

    >>> from chainrule.agents import games
    >>> game = games.make("tic-tac-toe")
    >>> state = game.init()
    >>> for move in ("a3", "a1", "b3", "b1"):
    ...     state = game.play(state, move)
    >>> found = search(game, state, lambda state: (np.ones(9), 0.0), simulations=50, temperature=0.0)
    >>> game.move_name(found.action)
    'c3'

    `evaluate(state)` gives a prior over actions, which is masked to the legal ones and normalised, and a value in
    [-1, 1] for who is to move. `temperature` shapes the policy: visits^(1 / temperature), 0 for the most visited. With
    `transpositions`, a position that several orders of moves lead to is one node, evaluated once; without, it is a node
    for each of them, as in `fast`.
    """
    if simulations < 1 or c < 0 or temperature < 0:
        raise ArgumentError(
            f"search(simulations={simulations}, c={c}, temperature={temperature}): needs simulations >= 1, "
            "c >= 0 and temperature >= 0"
        )
    check_noise(noise, key)
    graph = _Graph(game, evaluate, transpositions)
    root, _ = graph.node_at(state, None)
    if root.over:
        raise ArgumentError("search: the game has ended; there is nothing to search for")
    noise_key, move_key = (None, None) if key is None else jax.random.split(key)
    if noise is not None and noise_key is not None:
        prior = jnp.asarray(root.prior, jnp.float32)
        root.prior = np.asarray(with_noise(noise_key, prior, prior > 0, noise), float)
    for _ in range(simulations):
        _simulate(graph, root, c)
    policy = np.asarray(visit_policy(jnp.asarray(root.visits, jnp.float32), temperature))
    action = policy.argmax() if move_key is None else jax.random.categorical(move_key, jnp.log(policy))
    return SearchResult(
        root.visits, policy, float(root.totals.sum() / simulations), root.q, int(action), root
    )


def _simulate(graph: "_Graph", root: SearchNode, c: float) -> None:
    path = []
    node, new = root, False
    while not (new or node.over):
        action = node.select(c)
        path.append((node, action))
        if action in node.children:
            node = node.children[action]
        else:
            child, new = graph.node_at(node.state, np.int32(action))
            node.children[action] = node = child
    value, player = node.value, node.player
    for parent, action in reversed(path):
        value = seen_by(parent.player, player, value)
        player = parent.player
        parent.visits[action] += 1
        parent.totals[action] += value


def seen_by(player: int, other: int, value: float) -> float:
    """A value for one player, as the other sees it: what one wins the other loses."""
    return value if player == other else -value


@final
class _Graph:
    """The nodes of a search; with transpositions, one for each position, however it came about."""

    def __init__(self, game: Game[Any], evaluate: Evaluate, transpositions: bool) -> None:
        self._game, self._evaluate, self._transpositions = game, evaluate, transpositions
        self._nodes: dict[bytes, SearchNode] = {}

    def node_at(self, state: Any, action: np.int32 | None) -> tuple[SearchNode, bool]:
        """The node of the position after an action, or of the state as it is, and whether it is new."""
        state, legal, player, over, rewards = jax.device_get(_look(self._game, state, action))
        position = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))
        if self._transpositions and position in self._nodes:
            return self._nodes[position], False
        prior, value = (legal, rewards[player]) if over else self._evaluate(state)
        prior = np.where(legal, np.asarray(prior, float), 0.0)
        prior = prior / prior.sum() if prior.any() else legal / legal.sum()
        visits, totals = np.zeros(len(prior), int), np.zeros(len(prior))
        node = SearchNode(state, int(player), float(value), bool(over), prior, visits, totals)
        self._nodes[position] = node
        return node, True


@eqx.filter_jit
def _look(game: Game[Any], state: Any, action: Any) -> Any:
    """The state after an action, or as it is, and what the rules say about it."""
    if action is not None:
        state = game.step(state, action)
    legal, player = game.legal_mask(state), game.current_player(state)
    return state, legal, player, game.terminated(state), game.rewards(state)


__all__ = ["TIE", "Evaluate", "SearchNode", "SearchResult", "search", "seen_by"]
