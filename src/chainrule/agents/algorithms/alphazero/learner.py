"""AlphaZero: a network learns a game from nothing but its rules, by playing against itself.

A search looks further than the network that guides it: what the search finds best becomes what the network says first,
and how games end becomes what it expects of positions. One round plays a number of moves of many games at once and
then steps the weights on positions of the window; it is one compiled program. The latest network plays, as in
AlphaZero (Silver et al., Science 362, 2018), or the best so far, as in AlphaGo Zero (Nature 550, 2017), which a
candidate has to beat in a match.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.algorithms.alphazero.config import AlphaZeroConfig, AlphaZeroHyper, hyper_of
from chainrule.agents.algorithms.alphazero.gating import GateState, Shares, begin_gate, meet, shares
from chainrule.agents.algorithms.alphazero.opponent import AlphaZeroOpponent
from chainrule.agents.algorithms.alphazero.self_play import Games, GameSums, begin_games, play
from chainrule.agents.algorithms.alphazero.window import PositionWindow, add, draw, empty
from chainrule.agents.arena.opponents import Opponent, RandomOpponent, SearchOpponent, uninformed
from chainrule.agents.games.base import Game
from chainrule.agents.learning.base import HasGameNetwork, HasOwnEvaluation, Learner, Policy
from chainrule.agents.policy_value.network import PolicyValueNetwork
from chainrule.agents.policy_value.policy import UnsearchedPolicy
from chainrule.agents.policy_value.sizing import check_alike, check_game, network_for, structure
from chainrule.agents.policy_value.training import FitState, arrays, begin_fit, restore, turned, update
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Tree


class AlphaZeroState(NamedTuple):
    """Everything that training goes on from."""

    key: Key
    hyper: AlphaZeroHyper
    fitted: FitState
    games: Games
    window: PositionWindow
    gate: GateState | None


@final
class AlphaZero(Learner[AlphaZeroState], HasOwnEvaluation, HasGameNetwork):
    """Self-play of a game, and training of a network on it."""

    game: Game[Any]
    like: PolicyValueNetwork
    """A network of the same settings, of which only the structure is used."""
    config: AlphaZeroConfig = eqx.field(static=True)

    initial: Tree
    """Arrays of a network that training begins with; None to begin with nothing."""

    def __init__(
        self, config: AlphaZeroConfig, game: Game[Any], initial: PolicyValueNetwork | None = None
    ) -> None:
        game = check_game("alphazero", game)
        if config.window < config.games * config.moves:
            raise ArgumentError(
                f"window={config.window}: a round has {config.games} x {config.moves} positions",
                remedy=f"window={config.games * config.moves} or more",
            )
        shapes = eqx.filter_eval_shape(_fresh, config, game, jax.random.key(0))
        if initial is not None:
            check_alike(shapes, initial)
        self.game = game
        self.config = config
        self.like = structure(shapes)
        self.initial = None if initial is None else arrays(initial)

    @property
    def rounds(self) -> int:
        """Rounds of self-play and training in an iteration: with gating, as many as there are between matches."""
        return -(-self.config.gate_every // self.config.updates) if self.config.gating else 1

    @property
    def steps_per_iteration(self) -> int:
        return self.config.games * self.config.moves * self.rounds

    @property
    def hyper(self) -> AlphaZeroHyper:
        return hyper_of(self.config)

    def begin(self, key: Key, hyper: AlphaZeroHyper) -> AlphaZeroState:
        network_key, games_key, key = jax.random.split(key, 3)
        config = self.config
        network = _fresh(config, self.game, network_key)
        fitted = begin_fit(network if self.initial is None else restore(self.like, self.initial))
        rows = config.window // (config.games * config.moves) * config.moves
        return AlphaZeroState(
            key,
            jax.tree.map(lambda number: jnp.asarray(number, jnp.float32), hyper),
            fitted,
            begin_games(games_key, self.game, config),
            empty(self.game, rows, config.games),
            begin_gate(fitted.weights) if config.gating else None,
        )

    def iterate(self, state: AlphaZeroState) -> tuple[AlphaZeroState, dict[str, Array]]:
        # Rounds are a scan within an iteration: a match that hung on a condition would be played in every round
        # where several trainings run side by side.
        state, (sums, metrics) = jax.lax.scan(lambda s, _: self._round(s), state, length=self.rounds)
        metrics = jax.tree.map(lambda leaf: leaf.mean(), metrics) | _shares(
            jax.tree.map(lambda leaf: leaf.sum(), sums), self.steps_per_iteration
        )
        if state.gate is None:
            return state, metrics
        key, match_key = jax.random.split(state.key)
        gate, facts = meet(self.config, self.game, self.like, state.gate, state.fitted.weights, match_key)
        return state._replace(key=key, gate=gate), metrics | facts

    def network(self, state: AlphaZeroState) -> PolicyValueNetwork:
        """The network that plays in earnest: the best one so far with gating, else the average of recent weights."""
        return restore(self.like, state.fitted.average if state.gate is None else state.gate.best)

    def policy(self, state: AlphaZeroState) -> Policy:
        return UnsearchedPolicy(self.network(state))

    def evaluate(self, state: AlphaZeroState, key: Key, count: int) -> dict[str, Array]:
        """Matches against random moves and against a search without a network; won counts 1, lost -1."""
        simulations = self.config.simulations
        unguided = SearchOpponent(self.game, simulations, uninformed(self.game), title="unguided")
        against_random = self.strength(state, RandomOpponent(self.game), count, key)
        against_search = self.strength(state, unguided, count, key)
        return {
            "return_mean": against_search.margin,
            "return_random": against_random.margin,
        }

    def strength(self, state: AlphaZeroState, opponent: Opponent, games: int, key: Key) -> Shares:
        """A match of what has been learnt, with search, against an opponent; half of the games are begun by each."""
        return shares(self.game, self.opponent(state), opponent, games, self.config.match_opening, key)

    def opponent(self, state: AlphaZeroState, simulations: int | None = None) -> AlphaZeroOpponent:
        """What has been learnt as an opponent for the arena, with as many simulations as in training unless told."""
        changes = {} if simulations is None else {"simulations": simulations}
        return AlphaZeroOpponent(self.game, self.network(state), self.config.model_copy(update=changes))

    def _round(self, state: AlphaZeroState) -> tuple[AlphaZeroState, tuple[GameSums, dict[str, Array]]]:
        key, play_key, train_key = jax.random.split(state.key, 3)
        weights = state.fitted.weights if state.gate is None else state.gate.best
        games, moves, sums = play(
            self.config, self.game, state.hyper.resign, restore(self.like, weights), state.games, play_key
        )
        window = add(state.window, moves)

        def step(fitted: FitState, key: Key) -> tuple[FitState, dict[str, Array]]:
            draw_key, turn_key = jax.random.split(key)
            examples = turned(turn_key, draw(draw_key, window, self.config.batch), self.game.symmetries())
            return update(self.like, fitted, examples, state.hyper.training)

        fitted, metrics = jax.lax.scan(step, state.fitted, jax.random.split(train_key, self.config.updates))
        after = state._replace(key=key, fitted=fitted, games=games, window=window)
        return after, (sums, jax.tree.map(lambda leaf: leaf.mean(), metrics))


def _fresh(config: AlphaZeroConfig, game: Game[Any], key: Key) -> PolicyValueNetwork:
    return network_for(game, config.network, config.blocks, config.width, key)


def _shares(sums: GameSums, moves: int) -> dict[str, Array]:
    """Facts about the games that ended; not a number where none did."""
    games = jnp.where(sums.games > 0, sums.games, jnp.nan)
    hopeless = jnp.where(sums.hopeless > 0, sums.hopeless, jnp.nan)
    return {
        "games": sums.games.astype(jnp.float32),
        "game_length": sums.moves / games,
        "first_share": sums.first / games,
        "draw_share": sums.drawn / games,
        "truncated_share": sums.truncated / games,
        "search_entropy": sums.entropy / moves,
        "resign_wrong": sums.recovered / hopeless,
    }


__all__ = ["AlphaZero", "AlphaZeroState"]
