"""Imitation: a network learns from stored games which move comes next and who will win.

This is how the first AlphaGo began (Silver et al., Nature 529, 2016): the moves of experts for the policy, the outcomes
of their games for the value. Games, not positions, are held out to judge by: positions of one game are much alike. What
has been learnt can be gone on with by self-play (`alphazero`, setting `start`).
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.algorithms.imitation.config import ImitationConfig
from chainrule.agents.games.base import Game
from chainrule.agents.learning.base import HasGameNetwork, HasOwnEvaluation, Learner, Policy
from chainrule.agents.policy_value.network import PolicyValueNetwork
from chainrule.agents.policy_value.policy import UnsearchedPolicy
from chainrule.agents.policy_value.sizing import check_game, network_for, structure
from chainrule.agents.policy_value.training import (
    FitState,
    TrainingHyper,
    begin_fit,
    restore,
    turned,
    update,
)
from chainrule.agents.records.positions import GameMoves, StoredPositions, examples_of, replayed
from chainrule.agents.records.reading import read_games
from chainrule.agents.records.teacher import searched_games
from chainrule.core import random
from chainrule.core.errors import DataError
from chainrule.core.types import Array, Key

JUDGED = 1024
"""Positions that an evaluation looks at, times the number of games it is asked for, at most all that are held out."""


class ImitationState(NamedTuple):
    """Everything that training goes on from."""

    key: Key
    hyper: TrainingHyper
    fitted: FitState


@final
class Imitation(Learner[ImitationState], HasOwnEvaluation, HasGameNetwork):
    """Training of a policy-value network on stored games."""

    game: Game[Any]
    like: PolicyValueNetwork
    """A network of the same settings, of which only the structure is used."""
    learnt_from: StoredPositions
    held_out: StoredPositions
    config: ImitationConfig = eqx.field(static=True)

    def __init__(self, config: ImitationConfig, game: Game[Any]) -> None:
        self.game = check_game("imitation", game)
        self.config = config
        self.like = structure(eqx.filter_eval_shape(_fresh, config, game, jax.random.key(0)))
        self.learnt_from, self.held_out = divided(
            replayed(game, _games(config, game), config.bad), config.held_out
        )

    @property
    def steps_per_iteration(self) -> int:
        return self.config.batch * self.config.updates

    @property
    def hyper(self) -> TrainingHyper:
        return TrainingHyper(self.config.learning_rate, self.config.decay, self.config.average)

    def begin(self, key: Key, hyper: TrainingHyper) -> ImitationState:
        network_key, key = jax.random.split(key)
        hyper = jax.tree.map(lambda number: jnp.asarray(number, jnp.float32), hyper)
        return ImitationState(key, hyper, begin_fit(_fresh(self.config, self.game, network_key)))

    def iterate(self, state: ImitationState) -> tuple[ImitationState, dict[str, Array]]:
        key, train_key = jax.random.split(state.key)

        def step(fitted: FitState, key: Key) -> tuple[FitState, dict[str, Array]]:
            draw_key, turn_key = jax.random.split(key)
            rows = jax.random.randint(draw_key, (self.config.batch,), 0, len(self.learnt_from.action))
            examples = turned(
                turn_key, examples_of(self.learnt_from, rows, self.game), self.game.symmetries()
            )
            return update(self.like, fitted, examples, state.hyper)

        fitted, metrics = jax.lax.scan(step, state.fitted, jax.random.split(train_key, self.config.updates))
        after = ImitationState(key, state.hyper, fitted)
        return after, jax.tree.map(lambda leaf: leaf.mean(), metrics)

    def evaluate(self, state: ImitationState, key: Key, count: int) -> dict[str, Array]:
        """Share of held-out moves that are the network's first choice, and how far values are from outcomes."""
        total = len(self.held_out.action)
        rows = jax.random.permutation(key, total)[: min(total, JUDGED * count)]
        batch = min(len(rows), self.config.batch)
        network = self.network(state)

        def judged(rows: Array) -> tuple[Array, ...]:
            examples = examples_of(self.held_out, rows, self.game)
            logits, values = network(examples.planes)
            right = jnp.argmax(logits, 1) == self.held_out.action[rows]
            surprisal = -(examples.policy * jax.nn.log_softmax(logits)).sum(1)
            error = examples.known * (examples.outcome - values) ** 2
            return right.mean(), surprisal.mean(), error.sum(), examples.known.sum()

        whole = len(rows) // batch
        right, surprisal, error, known = jax.lax.map(judged, rows[: whole * batch].reshape(whole, batch))
        return {
            "return_mean": right.mean(),
            "surprisal": surprisal.mean(),
            "value_error": error.sum() / jnp.maximum(known.sum(), 1),
        }

    def network(self, state: ImitationState) -> PolicyValueNetwork:
        """The average of recent weights."""
        return restore(self.like, state.fitted.average)

    def policy(self, state: ImitationState) -> Policy:
        return UnsearchedPolicy(self.network(state))


def divided(positions: StoredPositions, share: float) -> tuple[StoredPositions, StoredPositions]:
    """Positions to learn from and positions to judge by, no game in both; which games is a matter of chance."""
    games = np.unique(np.asarray(positions.game))  # some numbers are of games that were left out
    if len(games) < 2:
        raise DataError("there is one game only: one to learn from and one to judge by are needed")
    count = min(len(games) - 1, max(1, round(share * len(games))))
    chosen = games[np.random.default_rng(0).permutation(len(games))[:count]]
    out = np.isin(np.asarray(positions.game), chosen)
    return _rows(positions, ~out), _rows(positions, out)


def _rows(positions: StoredPositions, which: np.ndarray) -> StoredPositions:
    return StoredPositions(*(jnp.asarray(np.asarray(column)[which]) for column in positions))


def _fresh(config: ImitationConfig, game: Game[Any], key: Key) -> PolicyValueNetwork:
    return network_for(game, config.network, config.blocks, config.width, key)


def _games(config: ImitationConfig, game: Game[Any]) -> list[GameMoves]:
    if config.records:
        return read_games(game, config.records, config.bad)
    return searched_games(
        game,
        random.key(0, "teacher"),
        games=config.teacher_games,
        simulations=config.teacher_simulations,
        drawn=config.teacher_drawn,
    )


__all__ = ["Imitation", "ImitationState", "divided"]
