"""Environments of the user's own: a Python file with two functions.

    ACTIONS = 2                                     # 0 and 1; (low, high) for real numbers
    PARAMS = {"wind": 0.1}                          # optional: numbers that may be set

    def reset(key, params):                         # or reset(key)
        return state, observation

    def step(key, state, action, params):           # or step(key, state, action)
        return state, observation, reward, terminated, truncated, info

Both are compiled by JAX. The file is run when it is loaded, so that loading one is a deliberate act, like running it.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.envs.base import Environment, TimeStep
from chainrule.agents.envs.checking import check_env, traced
from chainrule.agents.envs.spaces import Box, Discrete, Space
from chainrule.core import code_files
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array, Key, Tree

_PARTS = ("state", "observation", "reward", "terminated", "truncated", "info")


@final
class OwnEnvironment(Environment[Any]):
    """An environment made of two functions."""

    observations: Space
    actions: Space
    reset_function: Callable[..., Any] = eqx.field(static=True)
    step_function: Callable[..., Any] = eqx.field(static=True)
    params: Tree = ()

    @property
    def observation_space(self) -> Space:
        return self.observations

    @property
    def action_space(self) -> Space:
        return self.actions

    def begin(self, key: Key, params: Tree) -> tuple[Any, Array]:
        return begun(self.reset_function, key, params)

    def advance(self, key: Key, state: Any, action: Array, params: Tree) -> TimeStep:
        given = (key, state, action, params)
        parts = self.step_function(*given[: _takes(self.step_function, 3)])
        if not isinstance(parts, tuple) or len(parts) != len(_PARTS):
            count = len(parts) if isinstance(parts, tuple) else 1
            raise ArgumentError(
                f"step returns {count} value{'s' * (count != 1)}, six are needed: {', '.join(_PARTS)}",
                remedy="terminated says that nothing follows, truncated that a limit of time cut off what would have; "
                "where there is none: False",
            )
        state, observation, reward, terminated, truncated, info = parts
        return TimeStep(
            _arrays(state),
            _arrays(observation),
            jnp.asarray(reward, jnp.float32),
            jnp.asarray(terminated),
            jnp.asarray(truncated),
            _arrays(dict(info or {})),
        )


def begun(function: Callable[..., Any], key: Key, params: Tree) -> tuple[Any, Array]:
    """State and observation that a user's `reset` returns."""
    parts = function(*(key, params)[: _takes(function, 1)])
    if not isinstance(parts, tuple) or len(parts) != 2:
        raise ArgumentError("reset must return two values: state, observation")
    return _arrays(parts[0]), _arrays(parts[1])


def load(file: str | Path, /, *, check: bool = True, **params: Any) -> Environment[Any]:
    """The environment in a file, which is run; with numbers other than those of its `PARAMS`.

    It is tried with random steps first, see `check_env`.
    """
    return from_file(file, params, check=check)


def from_file(file: str | Path, params: Mapping[str, Any], *, check: bool = True) -> Environment[Any]:
    """The same, where numbers may have any name."""
    path = Path(file).expanduser()
    if not path.is_file():
        raise ArgumentError(f"there is no file {str(file)!r}")
    found = code_files.contents(path)
    reset, step = (_function(path, found, name) for name in ("reset", "step"))
    numbers = _params(path, found.get("PARAMS", {}), params)
    if "ACTIONS" not in found:
        raise ArgumentError(
            f"{path} has no ACTIONS", remedy="write how many there are, ACTIONS = 4, or ACTIONS = (low, high)"
        )
    try:
        said = found.get("OBSERVATIONS")
        seen = _inferred(reset, numbers) if said is None else _space("OBSERVATIONS", said)
        env = OwnEnvironment(
            reset_function=reset,
            step_function=step,
            observations=seen,
            actions=_space("ACTIONS", found["ACTIONS"]),
            params=numbers,
        )
        if check:
            check_env(env)
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error.message}", remedy=error.remedy) from error
    return env


def _function(path: Path, found: Mapping[str, Any], name: str) -> Callable[..., Any]:
    function = found.get(name)
    if not inspect.isroutine(function) and not callable(function):
        raise ArgumentError(f"{path} has no function {name}", remedy="an environment needs reset and step")
    needed, most = (1, 2) if name == "reset" else (3, 4)
    taken = _takes(function, needed)
    if not needed <= taken <= most:
        arguments = "key, params" if name == "reset" else "key, state, action, params"
        raise ArgumentError(f"{path}: {name} takes {taken} arguments", remedy=f"write {name}({arguments})")
    return function


def _takes(function: Callable[..., Any], at_least: int) -> int:
    """How many positional arguments a function takes; `at_least` where that cannot be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return at_least
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)


def _params(path: Path, known: Any, given: Mapping[str, Any]) -> dict[str, float]:
    if not isinstance(known, dict):
        raise ArgumentError(
            f"{path}: PARAMS is {type(known).__name__}", remedy='write PARAMS = {"name": 1.0}'
        )
    for name in given:
        if name not in known:
            listed = f"PARAMS of {path.name}: {', '.join(known)}" if known else f"{path.name} has no PARAMS"
            raise ArgumentError(f"unknown setting {name!r}{suggest(name, known)}", remedy=listed)
    numbers = {**known, **given}
    for name, value in numbers.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise ArgumentError(f"{name}={value!r}: it must be a finite number")
    return numbers


def _space(name: str, said: Any) -> Space:
    if isinstance(said, Space):
        return said
    if isinstance(said, int) and not isinstance(said, bool):
        return Discrete(said)
    if isinstance(said, tuple) and len(said) == 2:
        low, high = (np.atleast_1d(np.asarray(end, np.float32)) for end in said)
        return Box(low, high)
    raise ArgumentError(
        f"{name}={said!r} is no space",
        remedy=f"write {name} = 4, or {name} = (low, high) with two lists",
    )


def _inferred(reset: Callable[..., Any], params: Tree) -> Space:
    """The space of what `reset` returns: any real numbers of that shape."""
    seen = traced("reset", eqx.filter_eval_shape, lambda: begun(reset, jax.random.key(0), params))[1]
    if not isinstance(seen, jax.ShapeDtypeStruct):
        raise ArgumentError("the observation is not one array", remedy="put its parts into one array")
    if not jnp.issubdtype(seen.dtype, jnp.floating):
        raise ArgumentError(
            f"the observation is {seen.dtype}{list(seen.shape)}, and how many values it has is not said",
            remedy="write OBSERVATIONS = 16 for 0 to 15, or return real numbers",
        )
    return Box(-np.inf, np.inf, seen.shape)


def _arrays(tree: Any) -> Any:
    """Plain numbers as arrays with a type of their own, so that it cannot change from step to step."""
    return jax.tree.map(
        lambda leaf: (
            leaf
            if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)
            else jnp.asarray(leaf, jnp.result_type(leaf))
        ),
        tree,
    )


__all__ = ["OwnEnvironment", "begun", "from_file", "load"]
