"""Gymnasium's environments, stepped on the host: `make("gym:LunarLander-v3")`.

All worlds of a batch are stepped by one call from the compiled program. A state holds no world, only which one it is (a
number that the host gave out) and the seed that its episode began with, so that the same keys give the same episodes.
Asking twice for the same step gives the same answer, as JAX demands of pure functions; a world that the host does not
know (of a training that was stopped and goes on in another process) is cut off.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt32

from chainrule.agents.envs.base import Environment, TimeStep, advance_or_restart
from chainrule.agents.envs.spaces import Box, Discrete, MultiDiscrete, Space
from chainrule.core import formatting
from chainrule.core.errors import ArgumentError, CapabilityError, suggest
from chainrule.core.types import Array, Int, Key, Tree

PREFIX = "gym:"
_NONE = -1
_MOST = 4096
"""Worlds kept alive at most: the oldest are closed first."""
_MEASURED = 256


class GymState(NamedTuple):
    """Which world it is, before the first step none; seed of the episode; steps so far; what was seen last."""

    world: Int[Array, ""]
    seed: UInt32[Array, "2"]
    t: Int[Array, ""]
    observation: Array


@final
class _World:
    """One running episode, and its last answer."""

    def __init__(self, env: Any, seed: int) -> None:
        self.env = env
        env.reset(seed=seed)
        self.t = 0
        self.action: Any = None
        self.answer: tuple[Any, float, bool, bool] = (None, 0.0, False, False)

    def step(self, action: Any) -> None:
        seen, reward, terminated, truncated, _ = self.env.step(action)
        self.t, self.action = self.t + 1, action
        self.answer = (seen, float(reward), bool(terminated), bool(truncated))


@final
class GymHost:
    """The worlds of one environment on the host."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self._alive: OrderedDict[int, _World] = OrderedDict()
        self._idle: list[Any] = [build()]
        self._given_out = 0
        self._lock = threading.Lock()
        self.observation_space = _space("observations", self._idle[0].observation_space)
        self.action_space = _space("actions", self._idle[0].action_space)
        self._first_observation = _start(self._idle[0].observation_space)
        self._first_action = _start(self._idle[0].action_space)

    def reset(self, *given: Array) -> np.ndarray:
        """First observations, for truth values that say where they are needed, and seeds."""
        space = self.observation_space
        needed, seeds = (np.asarray(part) for part in given)
        seen = np.zeros((*needed.shape, *space.shape), space.dtype)
        with self._lock:
            for index in np.argwhere(needed):
                env = self._take()
                seen[tuple(index)] = env.reset(seed=_number(seeds[tuple(index)]))[0] - self._first_observation
                self._idle.append(env)
        return seen

    def step(self, *given: Array) -> tuple[np.ndarray, ...]:
        """The next observation, reward, the two kinds of end and the world, for every state and action."""
        worlds, seeds, ts, before, actions = (np.asarray(part) for part in given)
        space = self.observation_space
        seen = np.array(before, space.dtype)
        rewards = np.zeros(worlds.shape, np.float32)
        terminated, truncated = np.zeros(worlds.shape, bool), np.ones(worlds.shape, bool)
        numbers = np.array(worlds)
        with self._lock:
            for index in np.ndindex(worlds.shape):
                number, t, action = int(worlds[index]), int(ts[index]), self._action(actions[index])
                if number == _NONE:
                    number = self._begin(_number(seeds[index]))
                world = self._alive.get(number)
                if world is None or not self._brought_to(world, t, action):
                    continue  # stays where it was, and is cut off
                numbers[index] = number
                observation, rewards[index], terminated[index], truncated[index] = world.answer
                seen[index] = observation - self._first_observation
        return seen, rewards, terminated, truncated & ~terminated, numbers

    def _brought_to(self, world: _World, t: int, action: Any) -> bool:
        """Whether a world has been stepped from t by this action, now or when asked the same before."""
        if world.t == t and not (world.answer[2] or world.answer[3]):
            world.step(action)
            return True
        return world.t == t + 1 and np.array_equal(world.action, action)

    def _begin(self, seed: int) -> int:
        number = self._given_out
        self._given_out = (self._given_out + 1) % (2**31 - 1)
        self._alive[number] = _World(self._take(), seed)
        while len(self._alive) > _MOST:
            _, oldest = self._alive.popitem(last=False)
            self._idle.append(oldest.env)
        return number

    def _take(self) -> Any:
        """An environment that nobody uses: an idle one, that of an episode that is over, or a new one."""
        if self._idle:
            return self._idle.pop()
        for number, world in self._alive.items():
            if world.answer[2] or world.answer[3]:
                del self._alive[number]
                return world.env
        return self._build()

    def _action(self, action: np.ndarray) -> Any:
        if isinstance(self.action_space, Discrete):
            return int(action + self._first_action)
        return action + self._first_action


@final
class GymEnvironment(Environment[GymState]):
    """One of Gymnasium's environments."""

    host: GymHost = eqx.field(static=True)
    params: tuple[()] = ()

    @property
    def observation_space(self) -> Space:
        return self.host.observation_space

    @property
    def action_space(self) -> Space:
        return self.host.action_space

    def begin(self, key: Key, params: Tree) -> tuple[GymState, Array]:
        del params
        seed = jax.random.bits(key, (2,), jnp.uint32)
        return self._first(seed, jnp.ones((), bool))

    def carried_over(
        self, ended: GymState, fresh: GymState, first: Array, over: Array
    ) -> tuple[GymState, Array]:
        """Resets on the host are dear: they are made only where an episode is over."""
        del ended, first
        return self._first(fresh.seed, over)

    def advance(self, key: Key, state: GymState, action: Array, params: Tree) -> TimeStep:
        del key, params
        space = self.host.observation_space
        shapes = (
            jax.ShapeDtypeStruct(space.shape, space.dtype),
            jax.ShapeDtypeStruct((), jnp.float32),
            jax.ShapeDtypeStruct((), bool),
            jax.ShapeDtypeStruct((), bool),
            jax.ShapeDtypeStruct((), jnp.int32),
        )
        given = (state.world, state.seed, state.t, state.observation, action)
        seen, reward, terminated, truncated, world = jax.pure_callback(
            self.host.step, shapes, *given, vmap_method="broadcast_all"
        )
        return TimeStep(
            GymState(world, state.seed, state.t + 1, seen), seen, reward, terminated, truncated, {}
        )

    def _first(self, seed: Array, needed: Array) -> tuple[GymState, Array]:
        space = self.host.observation_space
        shape = jax.ShapeDtypeStruct(space.shape, space.dtype)
        seen = jax.pure_callback(self.host.reset, shape, needed, seed, vmap_method="broadcast_all")
        return GymState(jnp.full((), _NONE, jnp.int32), seed, jnp.zeros((), jnp.int32), seen), seen


def bridged(name: str, /, **settings: Any) -> GymEnvironment:
    """An environment of Gymnasium by its name there, with settings of its own."""
    try:
        import gymnasium
    except ImportError as error:
        raise CapabilityError(
            f"{PREFIX}{name} needs the package gymnasium", remedy="install it: pip install 'chainrule[rl]'"
        ) from error
    known = gymnasium.registry
    if name not in known:
        raise ArgumentError(f"Gymnasium knows no environment {name!r}{suggest(name, known)}")
    try:
        # Gymnasium's own checks of every step would cost more than most steps; `check_env` makes them once.
        host = GymHost(lambda: gymnasium.make(name, disable_env_checker=True, **settings))
    except ArgumentError:
        raise
    except Exception as error:  # whatever an environment of others may raise
        lines = str(error).splitlines() or [""]
        raise ArgumentError(
            f"{PREFIX}{name} cannot be made: {type(error).__name__}: {lines[0]}",
            remedy="check its settings, and the packages that Gymnasium asks for",
        ) from error
    return GymEnvironment(host)


def bridge_note(env: Environment[Any], worlds: int = 8) -> str:
    """What a step costs, in a sentence: measured by random steps of a few worlds side by side."""
    steps = max(1, _MEASURED // worlds)

    @eqx.filter_jit
    def walk(key: Key) -> Array:
        keys = jax.random.split(key, worlds)
        state, _ = jax.vmap(env.reset)(keys)

        def one(state: Any, key: Key) -> tuple[Any, Array]:
            keys = jax.random.split(key, worlds)
            actions = jax.vmap(env.action_space.sample)(keys)
            moved = jax.vmap(lambda k, s, a: advance_or_restart(env, k, s, a))(keys, state, actions)
            return moved.state, moved.reward

        return jax.lax.scan(one, state, jax.random.split(key, steps))[1]

    jax.block_until_ready(walk(jax.random.key(0)))
    start = time.perf_counter()
    jax.block_until_ready(walk(jax.random.key(1)))
    each = (time.perf_counter() - start) / (steps * worlds)
    where = "on the host" if isinstance(env, GymEnvironment) else "in the compiled program"
    taken = formatting.number(1e6 * each)
    return f"a step takes {taken} µs {where}, {1 / each:,.0f} steps a second with {worlds} worlds"


def _space(what: str, space: Any) -> Space:
    """The same space in our terms."""
    kind = type(space).__name__
    if kind == "Discrete":
        return Discrete(int(space.n))
    if kind == "MultiDiscrete" and len(space.shape) == 1:
        return MultiDiscrete(tuple(int(n) for n in space.nvec))
    if kind == "Box":
        return Box(space.low, space.high)
    raise ArgumentError(
        f"{what} are a {kind} space of Gymnasium, which has no counterpart here",
        remedy="flatten it first, with gymnasium.wrappers.FlattenObservation in a registered environment",
    )


def _start(space: Any) -> Any:
    """Where Gymnasium's whole numbers begin, which need not be 0."""
    return space.start if type(space).__name__ in ("Discrete", "MultiDiscrete") else 0


def _number(seed: np.ndarray) -> int:
    return (int(seed[0]) << 32) | int(seed[1])


__all__ = ["PREFIX", "GymEnvironment", "GymHost", "GymState", "bridge_note", "bridged"]
