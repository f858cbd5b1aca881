"""Checks of environments: what a learner takes for granted, tried on random steps before anything is trained."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from chainrule.agents.envs.base import Environment, TimeStep, or_restarted
from chainrule.agents.envs.spaces import Space
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, ChainruleError
from chainrule.core.types import Array, Key

_BEGINNINGS = 100
"""Episodes that are begun to look at what `reset` returns."""
_BROKEN = {
    "impure": (
        "the same arguments lead to two different results",
        "draw random numbers from the key, with jax.random, and keep what changes in the state",
    ),
    "not_finite": (
        "there is a value that is not a finite number",
        "look for divisions by 0 and roots of negative numbers in step",
    ),
    "outside": ("the observation lies outside its space", "widen the space, or clip the observation"),
}
"""Rules that values can break: what is said of it, and what helps."""


@final
@dataclass(frozen=True)
class EnvironmentCheck:
    """What random steps have shown of an environment that broke no rule."""

    steps: int
    terminated: int
    """Episodes that ended."""
    truncated: int
    """Episodes that were cut off."""
    lowest_reward: float
    highest_reward: float
    notes: tuple[str, ...]
    """What is no error, and may still surprise."""

    @property
    def endless(self) -> str:
        """That no episode was over, in a sentence; empty where one was."""
        if self.terminated or self.truncated:
            return ""
        return (
            f"no episode was over within {self.steps:,} random steps; a limit of time may be wanted: let step say so "
            "by truncated, as in t >= 500"
        )


class _Seen(NamedTuple):
    """What is looked at after every step."""

    observation: Array
    outside: Array
    not_finite: Array
    reward: Array
    impure: Array
    terminated: Array
    truncated: Array
    later_reward: Array
    """Of a second step after an end."""


def check_env(env: Environment[Any], steps: int = 1000, seed: int = 0) -> EnvironmentCheck:
    """Take random steps in an environment; raise with the first rule that is broken.

    Looked for are steps that cannot be compiled, shapes and types that change, numbers that are not finite,
    observations outside their space, and steps that depend on more than their arguments.

    >>> from chainrule.agents import envs
    >>> check_env(envs.make("frozen-lake"), steps=200).highest_reward <= 1
    True
    """
    whole("check_env", "steps", steps)
    _check_shapes(env)
    _check_beginnings(env, jax.random.key(seed))
    seen = jax.device_get(_random_steps(env, jax.random.key(seed), steps))
    _check_steps(seen)
    notes = []
    late = seen.terminated & (seen.later_reward != 0)
    if late.any():
        reward = float(seen.later_reward[late.argmax()])
        notes.append(f"a step after an end still earns {reward:g}; it must not be counted")
    found = EnvironmentCheck(
        steps,
        int(seen.terminated.sum()),
        int(seen.truncated.sum()),
        float(seen.reward.min()),
        float(seen.reward.max()),
        tuple(notes),
    )
    return replace(found, notes=(*notes, found.endless)) if found.endless else found


def never_ends(env: Environment[Any]) -> bool:
    """Whether no step can end an episode, so that all of them are cut off.

    Read from the program of `step`: an end that depends on nothing that happens, and is false. What cannot be told from
    there counts as an end.

    >>> from chainrule.agents import envs
    >>> never_ends(envs.make("pendulum")), never_ends(envs.make("cartpole"))
    (True, False)
    """
    key = jax.random.key(0)
    space = env.action_space
    action = jax.ShapeDtypeStruct(space.shape, space.dtype)
    state = eqx.filter_eval_shape(env.reset, key)[0]
    program = jax.make_jaxpr(lambda *given: env.step(*given).terminated)(key, state, action).jaxpr
    needed = {var for var in program.outvars if isinstance(var, jax.extend.core.Var)}
    for equation in reversed(program.eqns):
        if needed.intersection(equation.outvars):
            needed |= {var for var in equation.invars if isinstance(var, jax.extend.core.Var)}
    if needed.intersection(program.invars):
        return False
    taken = jnp.zeros(space.shape, space.dtype)
    return not eqx.filter_jit(lambda: env.step(key, env.reset(key)[0], taken).terminated)()


def _check_shapes(env: Environment[Any]) -> None:
    key = jax.eval_shape(lambda: jax.random.key(0))
    space = env.action_space
    action = jax.ShapeDtypeStruct(space.shape, space.dtype)
    state, first = traced("reset", eqx.filter_eval_shape, env.reset, key)
    after = traced("step", eqx.filter_eval_shape, env.step, key, state, action)
    if not isinstance(after, TimeStep):
        raise ArgumentError(f"step returns {type(after).__name__}, not a TimeStep")
    _check_observation("reset", first, env.observation_space)
    _check_observation("step", after.observation, env.observation_space)
    if after.reward.shape != () or not jnp.issubdtype(after.reward.dtype, jnp.floating):
        raise ArgumentError(
            f"step: the reward is {_shown(after.reward)}, not one real number",
            remedy="take one entry, as in x[0], or a sum",
        )
    for name, flag in (("terminated", after.terminated), ("truncated", after.truncated)):
        if flag.shape != () or flag.dtype != bool:
            raise ArgumentError(
                f"step: {name} is {_shown(flag)}, not one truth value",
                remedy="compare numbers, as in x[0] > 2 or t >= 100",
            )
    before: Any = jax.tree.structure(state)
    now: Any = jax.tree.structure(after.state)
    if before != now:
        raise ArgumentError(
            f"step: the state changes from {before} to {now}",
            remedy="return the same parts of it from reset and step",
        )
    pairs = zip(jax.tree.leaves_with_path(state), jax.tree.leaves(after.state), strict=True)
    for (path, old), new in pairs:
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            where = jax.tree_util.keystr(path) or "it"
            raise ArgumentError(
                f"step: of the state, {where} changes from {_shown(old)} to {_shown(new)}",
                remedy="give it one shape and type from reset on",
            )


def traced(name: str, shapes: Any, function: Any, *arguments: Any) -> Any:
    """Shapes of what a function of the user's returns; what JAX cannot compile, or fails, is said in words."""
    try:
        return shapes(function, *arguments)
    except ChainruleError:
        raise
    except (
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerBoolConversionError,
        jax.errors.TracerIntegerConversionError,
        jax.errors.ConcretizationTypeError,
    ) as error:
        raise ArgumentError(
            f"{name} cannot be compiled: it needs the value of an array ({type(error).__name__})",
            remedy="write jnp.where(condition, a, b) for `if`, and jax.numpy for numpy",
        ) from error
    except Exception as error:  # whatever the code of others may raise
        lines = str(error).splitlines() or [""]
        raise ArgumentError(
            f"{name} fails: {type(error).__name__}: {lines[0]}",
            remedy=f"mend {name}; on the command line --trace shows where it fails",
        ) from error


def _check_observation(where: str, seen: Any, space: Space) -> None:
    if seen.shape != space.shape or seen.dtype != space.dtype:
        expected = _shown(jax.ShapeDtypeStruct(space.shape, space.dtype))
        raise ArgumentError(f"{where}: the observation is {_shown(seen)}, its space says {expected}")


def _shown(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"


@eqx.filter_jit
def _random_steps(env: Environment[Any], key: Key, steps: int) -> _Seen:
    def one(state: Any, key: Key) -> tuple[Any, _Seen]:
        action_key, step_key, reset_key, later_key = jax.random.split(key, 4)
        action = env.action_space.sample(action_key)
        after = env.step(step_key, state, action)
        # Traced a second time: a step that draws its own random numbers, or counts, answers differently.
        again = env.step(step_key, state, action)
        later = env.step(later_key, after.state, action)
        seen = _Seen(
            after.observation,
            ~env.observation_space.contains(after.observation),
            ~(_finite(after.state) & _real(after.observation) & _real(after.reward)),
            after.reward,
            ~_equal(after, again),
            after.terminated,
            after.truncated,
            later.reward,
        )
        return or_restarted(env, after, *env.reset(reset_key)).state, seen

    begin_key, walk_key = jax.random.split(key)
    state, _ = env.reset(begin_key)
    return jax.lax.scan(one, state, jax.random.split(walk_key, steps))[1]


def _check_beginnings(env: Environment[Any], key: Key) -> None:
    """Raise with the first of many beginnings that breaks a rule."""
    begun, again = (_beginnings(env, key) for _ in range(2))
    seen = np.asarray(begun[1])
    broken = np.stack(jax.device_get(_judged(env, begun, again)))
    if broken.any():
        at = int(broken.any(0).argmax())
        what, remedy = list(_BROKEN.values())[int(broken[:, at].argmax())]
        raise ArgumentError(
            f"reset: {what} (observation {_short(seen[at])})", remedy=remedy.replace("step", "reset")
        )


def _beginnings(env: Environment[Any], key: Key) -> Any:
    """States and observations, traced anew: what is drawn without the key, or counted, differs from call to call."""
    return eqx.filter_jit(
        lambda env, key: jax.lax.map(lambda one: env.reset(one), jax.random.split(key, _BEGINNINGS))
    )(env, key)


@eqx.filter_jit
def _judged(env: Environment[Any], begun: Any, again: Any) -> tuple[Array, ...]:
    """What is wrong with beginnings, in the order of `_BROKEN`."""

    def one(first: Any, second: Any) -> tuple[Array, Array, Array]:
        state, seen = first
        finite = _finite(state) & _real(seen)
        return ~_equal(first, second), ~finite, ~env.observation_space.contains(seen)

    found: tuple[Array, ...] = jax.vmap(one)(begun, again)
    return found


def _real(numbers: Array) -> Array:
    """Whether all are finite: what networks are given and learn from."""
    return jnp.isfinite(numbers).all()


def _finite(tree: Any) -> Array:
    numbers = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.stack([~jnp.isnan(leaf).any() for leaf in numbers]).all() if numbers else jnp.ones((), bool)


def _equal(first: Any, second: Any) -> Array:
    def same(a: Array, b: Array) -> Array:
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        both = (a == b) | ((a != a) & (b != b))
        return both.all()

    return jnp.stack(jax.tree.leaves(jax.tree.map(same, first, second))).all()


def _check_steps(seen: _Seen) -> None:
    """Raise with the first step that breaks a rule."""
    first = {name: int(getattr(seen, name).argmax()) for name in _BROKEN if getattr(seen, name).any()}
    if not first:
        return
    name = min(first, key=lambda name: first[name])
    at, (what, remedy) = first[name], _BROKEN[name]
    raise ArgumentError(
        f"step {at + 1:,}: {what} (observation {_short(seen.observation[at])}, reward {seen.reward[at]:g})",
        remedy=remedy,
    )


def _short(observation: Any) -> str:
    return np.array2string(np.asarray(observation), precision=4, threshold=12)


__all__ = ["EnvironmentCheck", "check_env", "never_ends", "traced"]
