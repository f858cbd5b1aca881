"""Self-play, 9x9 Go learnt from nothing, and 2,048 PPO agents at once, on one GPU.

`--case self-play`: seconds for a position of self-play, search included and updates of the weights left out, for many
games of connect-four and of 9x9 Go side by side. `--case go`: AlphaZero learns 9x9 Go for `GO_MINUTES` (6) and then
meets opponents of known strength; ratings start at random play. `--case ppo`: 2,048 agents learn CartPole for 500,000
steps each in one program, and are judged. `--smoke` does all of it at toy sizes, on a processor too.
"""

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import BenchmarkError, Case, Local, Options, Prepared, Report, Times, measure
from benchmarks.workers.protocol import steady
from chainrule.agents import games
from chainrule.agents.algorithms.alphazero import ENTRY as ALPHAZERO
from chainrule.agents.algorithms.alphazero import AlphaZero
from chainrule.agents.algorithms.alphazero.self_play import begin_games, play
from chainrule.agents.algorithms.ppo import ENTRY as PPO
from chainrule.agents.arena import matches, opponents, rating
from chainrule.agents.envs import make
from chainrule.agents.evaluation.statistics import interquartile_mean
from chainrule.agents.games.go import Go
from chainrule.agents.learning import loop
from chainrule.agents.policy_value.training import restore
from chainrule.agents.training.judging import judge

CHOICES = ("self-play", "go", "ppo")
SMOKE = True
MINUTES = float(os.environ.get("GO_MINUTES", "6"))
MATCH = 128
"""Games against each opponent."""
SOLVED = 475
"""Return at which CartPole counts as solved."""


class _Size(NamedTuple):
    """How much of everything."""

    simulations: int
    connect_four: int
    """Games side by side."""
    go: int
    board: int
    minutes: float
    match: int
    agents: int
    steps: int


FULL = _Size(32, 4096, 1024, 9, MINUTES, MATCH, 2048, 500_000)
TOY = _Size(2, 2, 2, 5, 0.02, 2, 2, 1024)
_SMALL = {"blocks": 1, "width": 8, "batch": 8, "updates": 1, "moves": 2}


def run(options: Options) -> Report:
    """Measure what was asked for."""
    options.chosen([])  # nobody to compare with
    if jax.default_backend() != "gpu" and not options.smoke:
        raise BenchmarkError("no GPU found: this benchmark is for one; --smoke shows that it runs")
    size = TOY if options.smoke else FULL
    cases: list[Case] = []
    notes: list[str] = []
    parts: dict[str, Callable[[Options, _Size], tuple[list[Case], list[str]]]]
    parts = {"self-play": _self_play, "go": _learnt_go, "ppo": _agents}
    for name, part in parts.items():
        if options.case not in (None, name):
            continue
        print(f"{name} ...", flush=True)
        found, said = part(options, size)
        cases += found
        notes += said
    return Report(tuple(cases), notes=tuple(notes), versions={"device": jax.devices()[0].device_kind})


def _self_play(options: Options, size: _Size) -> tuple[list[Case], list[str]]:
    cases, notes = [], []
    for name, game, side_by_side in (
        ("connect-four", games.make("connect-four"), size.connect_four),
        (f"go {size.board}x{size.board}", Go(size.board), size.go),
    ):
        learner = _learner(game, size, side_by_side)
        positions = side_by_side * learner.config.moves
        label = f"{name}, {side_by_side:,} games, {size.simulations} simulations, a position"
        ours = _player(learner, positions)
        case, _ = measure(label, [ours], rounds=options.rounds, tolerance=0, watch=options.watch)
        cases.append(case)
        notes.append(f"{name}: {1 / case.ours.summary.median:,.0f} positions of self-play a second")
        print(notes[-1], flush=True)
    return cases, notes


def _learner(game: Any, size: _Size, side_by_side: int) -> AlphaZero:
    config: dict[str, Any] = {"games": side_by_side, "simulations": size.simulations}
    # A position is learnt from twice, as by default, in batches that suit many games.
    config |= _SMALL if size is TOY else {"batch": 1024, "updates": max(1, side_by_side * 16 * 2 // 1024)}
    per_round = side_by_side * config.get("moves", 16)
    config["window"] = 8 * per_round
    return AlphaZero(ALPHAZERO.config(**config), game)


def _player(learner: AlphaZero, positions: int) -> Local:
    """Self-play by a network that has learnt nothing yet, which moves as slowly as one that has."""
    kept: dict[str, Any] = {}

    @jax.jit
    def moved(weights: Any, state: Any, key: Any) -> Any:
        return play(learner.config, learner.game, 0.0, restore(learner.like, weights), state, key)[0]

    def prepare() -> Prepared:
        kept["weights"] = jax.jit(learner.start)(jax.random.key(0)).fitted.weights
        kept["games"] = begin_games(jax.random.key(1), learner.game, learner.config)
        began = time.perf_counter()
        work(1)
        return Prepared([float(positions)], time.perf_counter() - began)

    def work(count: int) -> None:
        for _ in range(count):
            kept["key"], key = jax.random.split(kept.get("key", jax.random.key(2)))
            kept["games"] = jax.block_until_ready(moved(kept["weights"], kept["games"], key))

    return Local("chainrule", prepare, lambda: steady(work, 1) / positions)


def _learnt_go(options: Options, size: _Size) -> tuple[list[Case], list[str]]:
    """Go is learnt for some minutes, and what was learnt meets opponents that know no network."""
    del options  # a training happens once, however many rounds there are
    game = Go(size.board)
    learner = _learner(game, size, size.go)
    each, end = learner.steps_per_iteration, 60 * size.minutes
    training = _Training(learner, 1, most=1)
    early: Any = None
    while training.seconds < end or len(training.pieces) < 2:
        numbers = training.go_on(1)
        if early is None and training.seconds > end / 4:
            early = loop.run_of(training.states, 0)
        if len(training.pieces) % 20 == 0:
            said = ", ".join(f"{name} {numbers[name].mean():.3g}" for name in ("policy_loss", "value_loss"))
            done = len(training.pieces) * each
            print(f"{training.seconds:5.0f} s  {done:,} positions  {said}", flush=True)
    positions = len(training.pieces) * each
    label = f"go {size.board}x{size.board}, {size.go:,} games, {size.simulations} simulations, updates too, a position"
    said = f"go {size.board}x{size.board}: {positions:,} positions in {training.seconds / 60:.1f} minutes"
    print(said, flush=True)
    notes = [said, *_matches(game, learner, loop.run_of(training.states, 0), early, size)]
    return [training.case(label, each)], notes


class _Training:
    """Agents on their way, and the seconds that each piece of it took."""

    def __init__(self, learner: Any, agents: int, most: int) -> None:
        self.learner, self.most = learner, most
        self.states = loop.start(learner, jax.random.key(0), seeds=agents)
        began = time.perf_counter()
        loop.run_iterations(learner, self.states, 1, most=most)
        self.compile_seconds = time.perf_counter() - began
        self.pieces: list[float] = []
        self.counts: list[int] = []

    def go_on(self, count: int) -> dict[str, np.ndarray]:
        """So many iterations of all agents, and what they say."""
        began = time.perf_counter()
        self.states, numbers = loop.run_iterations(self.learner, self.states, count, most=self.most)
        jax.block_until_ready(self.states)
        self.pieces.append(time.perf_counter() - began)
        self.counts.append(count)
        return numbers

    @property
    def seconds(self) -> float:
        """So far, without compilation."""
        return sum(self.pieces)

    def case(self, label: str, steps: int) -> Case:
        """Seconds for one of the `steps` of an iteration, one number for each piece."""
        each = [taken / (count * steps) for taken, count in zip(self.pieces, self.counts, strict=True)]
        return Case(label, (Times("chainrule", self.compile_seconds, tuple(each)),), 0)


def _matches(game: Go, learner: AlphaZero, state: Any, early: Any, size: _Size) -> list[str]:
    ours = learner.opponent(state)
    area = _area(game)
    rivals: dict[str, opponents.Opponent] = {
        "random moves": opponents.RandomOpponent(game),
        "the move with the largest area": opponents.MinimaxOpponent(game, 1, area),
        "search by area, 64 simulations": opponents.SearchOpponent(game, 64, area, title="area"),
        "search by random games, 16 simulations": opponents.SearchOpponent(game, 16),
    }
    if early is not None:
        rivals["itself after a quarter of the time"] = learner.opponent(early)
    notes, results = [], {}
    for name, rival in rivals.items():
        found = matches.play_match(game, ours, rival, games=size.match, key=jax.random.key(3), opening=4)
        results["ours", name] = found
        notes.append(
            f"with {size.simulations} simulations against {name}: {found.wins} won, {found.draws} drawn, "
            f"{found.losses} lost ({100 * found.points / found.games:.0f} %)"
        )
        print(notes[-1], flush=True)
    ladder = rating.ratings(results, anchor="random moves")
    return [*notes, "ratings: " + ", ".join(f"{name} {found.elo:.0f}" for name, found in ladder.items())]


def _area(game: Go) -> opponents.EvaluateBatch:
    """An evaluation that counts stones and what they surround."""

    def evaluate(states: Any) -> tuple[Any, Any]:
        score = jax.vmap(game.score)(states)
        mine = jnp.where(jax.vmap(game.current_player)(states) == 0, score, -score)
        return jnp.ones((score.size, game.actions)), jnp.tanh(mine / game.size)

    return evaluate


def _agents(options: Options, size: _Size) -> tuple[list[Case], list[str]]:
    """Whole trainings of PPO side by side, timed with everything but compilation, and judged."""
    del options
    env = make("cartpole")
    learner = PPO.build(PPO.config(), env, size.steps)
    total = loop.whole_iterations(learner, size.steps)
    piece = max(1, total // 20)
    training = _Training(learner, size.agents, most=piece)
    for done in range(0, total, piece):
        training.go_on(min(piece, total - done))
    returns = judge(learner, env, training.states, jax.random.key(1), 20).by_agent
    steps = total * learner.steps_per_iteration
    rate = size.agents * steps / training.seconds
    middle = float(interquartile_mean(returns[:, None]))
    case = training.case(
        f"ppo on cartpole, {size.agents:,} agents, a step of each", learner.steps_per_iteration
    )
    return [case], [
        f"ppo, {size.agents:,} agents, {steps:,} steps each: {training.seconds:.1f} s, {rate:,.0f} steps a second",
        f"greedy returns: mean {returns.mean():.1f}, interquartile mean {middle:.1f}, "
        f"{(returns >= SOLVED).mean():.1%} at {SOLVED} or more",
    ]


__all__ = ["run"]
