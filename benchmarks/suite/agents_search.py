"""What a simulation of tree search costs on tic-tac-toe and connect-four, beside mctx and the readable search.

Everybody searches the same positions of random play with the same rules and the same small network of random weights,
by the same formula; shares of visits must agree. mctx is called with raw values and a constant exploration rate, so
that it does the same, and once as its own MuZero policy with default settings. The readable search takes one position
at a time. Seconds are for one simulation of one position. mctx comes with the tests' oracles (tests/oracles.txt).
"""

import importlib.metadata
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import (
    BenchmarkError,
    Case,
    Contestant,
    Local,
    Options,
    Prepared,
    Report,
    against,
    measure,
)
from benchmarks.workers.protocol import steady
from chainrule.agents import games
from chainrule.agents.games.base import Game
from chainrule.agents.tree_search import fast, reference

PEERS = ("mctx", "mctx-policy", "readable")
SMOKE = True
SIMULATIONS = 64
BATCH = 64
_NEVER = 1e-30
"""The probability of an illegal move as mctx takes it, which wants logits."""
_READ = 4
"""Positions that the readable search is timed on."""


def run(options: Options) -> Report:
    """Measure both games."""
    peers = options.chosen(PEERS)
    if find_spec("mctx") is None and {"mctx", "mctx-policy"} & set(peers):
        raise BenchmarkError(
            "mctx is not installed: pip install -r tests/oracles.txt, or measure without it: --peer readable"
        )
    simulations, batch = (8, 8) if options.smoke else (SIMULATIONS, BATCH)
    cases: list[Case] = []
    versions: dict[str, str] = {}
    for name in ("tic-tac-toe", "connect-four"):
        game = games.make(name)
        states = _positions(game, batch)
        evaluate = _network(game)
        ours = _ours(game, evaluate, simulations)
        sides: list[Contestant] = [_compiled("chainrule", ours, states, batch * simulations)]
        if "mctx" in peers:
            theirs = _mctx(game, evaluate, simulations, same=True)
            sides.append(_compiled("mctx", theirs, states, batch * simulations))
        if "readable" in peers:
            sides.append(_readable(game, evaluate, states, simulations))
        print(f"{name} ...", flush=True)
        label = f"{name}, {batch} positions, {simulations} simulations"
        case, found = measure(label, sides, rounds=options.rounds, tolerance=0.05, watch=options.watch)
        cases.append(case)
        versions.update(found)
        if "mctx-policy" in peers:
            policy = _mctx(game, evaluate, simulations, same=False)
            pair = [
                _compiled("chainrule", ours, states, batch * simulations, compared=False),
                _compiled("mctx-policy", policy, states, batch * simulations, compared=False),
            ]
            case, _ = measure(
                f"{label}, its own policy", pair, rounds=options.rounds, tolerance=0, watch=options.watch
            )
            cases.append(case)
    notes = [line for case in cases for line in against(case, 1.0)]
    return Report(tuple(cases), (), tuple(notes), versions)


def _positions(game: Game[Any], batch: int) -> Any:
    """Positions after four random moves."""
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), game.init())
    for key in jax.random.split(jax.random.key(0), 4):
        legal = jax.vmap(game.legal_mask)(states)
        actions = jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf))
        states = jax.vmap(game.step)(states, actions)
    return states


def _network(game: Game[Any]) -> Callable[[Any], Any]:
    rng = np.random.default_rng(0)
    size = int(np.prod(game.observation_shape))
    first = rng.normal(size=(size, 64)).astype(np.float32) / size**0.5
    second = rng.normal(size=(64, game.actions + 1)).astype(np.float32) / 4

    def evaluate(states: Any) -> Any:
        planes = jax.vmap(lambda state: game.observe(state, game.current_player(state)))(states)
        found = jax.nn.relu(planes.reshape(planes.shape[0], -1) @ first) @ second
        return jax.nn.softmax(found[:, :-1]), jnp.tanh(found[:, -1])

    return evaluate


def _ours(game: Game[Any], evaluate: Callable[[Any], Any], simulations: int) -> Callable[[Any], Any]:
    return jax.jit(lambda states: fast.search_batch(game, states, evaluate, simulations=simulations).visits)


def _mctx(
    game: Game[Any], evaluate: Callable[[Any], Any], simulations: int, *, same: bool
) -> Callable[[Any], Any]:
    import mctx

    advance = fast.advance_game(game, evaluate)

    def logits(prior: Any) -> Any:
        return jnp.log(jnp.maximum(prior, _NEVER))

    def recurrent(_: Any, key: Any, actions: Any, states: Any) -> Any:
        found = advance(key, states, actions)
        output = mctx.RecurrentFnOutput(
            reward=found.reward,
            discount=found.discount,
            prior_logits=logits(found.prior),
            value=found.value,
        )
        return output, found.state

    def raw(tree: Any, node: Any) -> Any:
        found = jnp.where(tree.children_visits[node] > 0, tree.qvalues(node), 0.0)
        # Below the root mctx knows no illegal moves: worth nothing, they would be better than legal ones that lose.
        return jnp.where(tree.children_prior_logits[node] > np.log(_NEVER) + 1, found, -jnp.inf)

    settings = {"pb_c_init": 1.0, "pb_c_base": 1e9, "qtransform": raw} if same else {}

    def search(states: Any) -> Any:
        prior, value = evaluate(states)
        root = mctx.RootFnOutput(prior_logits=logits(prior), value=value, embedding=states)
        illegal = ~jax.vmap(game.legal_mask)(states)
        found = mctx.muzero_policy(
            (),
            jax.random.key(0),
            root,
            recurrent,
            simulations,
            invalid_actions=illegal,
            dirichlet_fraction=0.0,
            **settings,
        )
        return found.search_tree.summary().visit_counts

    return jax.jit(search)


def _compiled(
    name: str, search: Callable[[Any], Any], states: Any, simulations: int, *, compared: bool = True
) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        visits = np.asarray(search(states), float)
        taken = time.perf_counter() - began
        result = [float(visits.sum()), *_shares(visits[:_READ])] if compared else [float(visits.sum())]
        versions = {} if name == "chainrule" else {"mctx": importlib.metadata.version("mctx")}
        return Prepared(_scaled(result, simulations), taken, versions)

    def work(count: int) -> Any:
        for _ in range(count):
            found = jax.block_until_ready(search(states))
        return found

    return Local(name, prepare, lambda: steady(work, 1) / simulations)


def _readable(game: Game[Any], evaluate: Callable[[Any], Any], states: Any, simulations: int) -> Contestant:
    single = jax.jit(
        lambda state: jax.tree.map(lambda x: x[0], evaluate(jax.tree.map(lambda x: x[None], state)))
    )
    chosen = [jax.tree.map(lambda x, i=i: x[i], states) for i in range(_READ)]

    def work(count: int) -> Any:
        found = []
        for _ in range(count):
            found = [
                reference.search(
                    game,
                    state,
                    lambda state: jax.device_get(single(state)),
                    simulations=simulations,
                    transpositions=False,
                ).visits
                for state in chosen
            ]
        return np.array(found, float)

    def prepare() -> Prepared:
        began = time.perf_counter()
        visits = work(1)
        return Prepared([1.0, *_shares(visits)], time.perf_counter() - began)

    return Local("readable", prepare, lambda: steady(work, 1) / (_READ * simulations))


def _shares(visits: np.ndarray) -> list[float]:
    """How even the visits are, for each position: a number that a few visits more or less hardly change."""
    shares = visits / visits.sum(1, keepdims=True)
    return [float(share) for share in (shares**2).sum(1)]


def _scaled(result: list[float], simulations: int) -> list[float]:
    return [result[0] / simulations, *result[1:]]


__all__ = ["run"]
