"""Recordings: an episode as data, from which it can be drawn again at any time.

A recording holds the random key, every state and observation, what was done, what came of it, and what the policy
thought: its value of the moment and its preferences among actions. It is stored as arrays (safetensors) and a few words
about them (JSON), never as code; environments draw the states, so that a film can be made long after the evaluation.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from jaxtyping import Real

from chainrule.agents.envs.base import Environment, HasDrawing
from chainrule.agents.envs.drawing import Drawing
from chainrule.agents.envs.wrappers import innermost
from chainrule.agents.evaluation.evaluate import LIMIT, Episode, check_keys, first, following
from chainrule.agents.learning.base import Policy
from chainrule.agents.training.states import storable
from chainrule.core import checks, tree
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.core.types import Array, ArrayLike, Float, Tree
from chainrule.train.files import make_folder, read_own, write_atomic, write_json

_FORMAT = 1
_CHUNK = 64
"""Steps that one call of the compiled program takes, so that memory does not grow with the length of an episode."""
_PER_STEP = ("actions", "rewards", "values", "preferences")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Recording:
    """One episode. Arrays are on the host; `states` and `observations` have one entry more than there are steps."""

    env: Environment[Any]
    key: Real[np.ndarray, "words"]
    """The numbers of the random key that the whole episode follows from."""
    greedy: bool
    terminated: bool
    """Whether it came to its own end; else it was cut off."""
    states: Tree
    observations: Real[np.ndarray, "moments ..."]
    actions: Real[np.ndarray, "steps ..."]
    rewards: Float[np.ndarray, "steps"]
    values: Float[np.ndarray, "steps"]
    """What the policy expected at each step; not a number where it has no opinion."""
    preferences: Real[np.ndarray, "steps ..."]
    """Probabilities or values of finitely many actions; else the mean."""

    def __len__(self) -> int:
        """Steps."""
        return len(self.rewards)

    def __repr__(self) -> str:
        how = "ended by itself" if self.terminated else "cut off"
        return f"Recording({type(self.env).__name__}, {len(self)} steps, {how}, return {self.score:g})"

    @property
    def score(self) -> float:
        """The sum of rewards."""
        return float(self.rewards.sum(dtype=np.float64))

    def rest(self, gamma: float) -> Float[np.ndarray, "steps"]:
        """What came from each step on: the sum of gamma^(k-t) r_k over all later steps k of the recording.

        >>> from chainrule.agents import envs
        >>> env, none = envs.make("cartpole"), np.zeros(3)
        >>> episode = Recording(env, none, True, True, (), none, none, np.array([1.0, 0.0, 4.0]), none, none)
        >>> episode.rest(0.5)
        array([2., 2., 4.])
        """
        if not 0 <= gamma <= 1:
            raise ArgumentError(f"rest(gamma={gamma}): gamma must lie between 0 and 1")
        found, later = np.empty(len(self)), 0.0
        for t in reversed(range(len(self))):
            found[t] = later = float(self.rewards[t]) + gamma * later
        return found

    def state(self, moment: int) -> Tree:
        """The state before the step of this number; the last one follows the last step."""
        return jax.tree.map(lambda leaf: leaf[moment], self.states)

    def drawing(self, moment: int) -> Drawing:
        """That state as the environment inside all wrappers draws it."""
        world, state = innermost(self.env, self.state(moment))
        if not isinstance(world, HasDrawing):
            raise CapabilityError(
                f"{type(world).__name__} cannot be drawn", remedy="give the environment a `render(state)`"
            )
        return world.render(state)

    @property
    def can_be_drawn(self) -> bool:
        """Whether the environment knows how its states look."""
        return isinstance(innermost(self.env, self.states)[0], HasDrawing)

    def save(self, path: Path) -> None:
        """Write `path`.safetensors and `path`.json."""
        arrays = {f"states.{name}": leaf for name, leaf in tree.named_leaves(self.states)}
        arrays |= {name: getattr(self, name) for name in ("observations", *_PER_STEP)}
        about = {
            "format": _FORMAT,
            "key": [int(word) for word in self.key],
            "greedy": self.greedy,
            "terminated": self.terminated,
            "steps": len(self),
            "return": self.score,
        }
        make_folder(path.parent)
        contents = safetensors.numpy.save({name: np.asarray(a, order="C") for name, a in arrays.items()})
        write_atomic(path.with_name(f"{path.name}.safetensors"), contents, durable=False)
        write_json(path.with_name(f"{path.name}.json"), about, durable=False)

    @classmethod
    def load(cls, path: Path, env: Environment[Any]) -> "Recording":
        """The recording that was saved under `path`, of an episode in `env`."""
        try:
            about = json.loads(read_own(path.with_name(f"{path.name}.json")))
            arrays = safetensors.numpy.load(
                read_own(path.with_name(f"{path.name}.safetensors"), most=1 << 32)
            )
            key, greedy, terminated = about["key"], bool(about["greedy"]), bool(about["terminated"])
            steps, version = len(arrays["rewards"]), about["format"]
            per_step = [arrays[name][:steps] for name in _PER_STEP]
            words = np.array(key, np.uint32)
        except (
            OSError,
            LookupError,
            TypeError,
            ValueError,
            OverflowError,
            safetensors.SafetensorError,
        ) as error:
            raise DataError(f"recording {path.name} cannot be read ({type(error).__name__})") from error
        if version != _FORMAT:
            raise DataError(
                f"recording {path.name} has format {version!r}; this version of Chainrule reads {_FORMAT}"
            )
        shapes = jax.eval_shape(lambda: _seen(*env.reset(jax.random.key(0))))
        states, observations = _checked(path.name, arrays, steps + 1, env, shapes)
        return cls(env, words, greedy, terminated, states, observations, *per_step)


def _checked(
    name: str, arrays: Mapping[str, np.ndarray], moments: int, env: Environment[Any], shapes: tuple[Tree, Any]
) -> tuple[Tree, np.ndarray]:
    """States and observations in the structure that the environment has; raises when they are not its own."""
    found = []
    for leaf_name, leaf in [
        *((f"states.{n}", leaf) for n, leaf in tree.named_leaves(shapes[0])),
        ("observations", shapes[1]),
    ]:
        wanted, stored = (moments, *leaf.shape), arrays.get(leaf_name)
        if stored is None or stored.shape != wanted or stored.dtype != leaf.dtype:
            has = "nothing" if stored is None else f"{stored.dtype}{list(stored.shape)}"
            needs = f"{type(env).__name__} has {leaf.dtype}{list(wanted)}"
            raise DataError(
                f"recording {name} has {has} as {leaf_name}, but {needs}",
                remedy="open it with the environment, and its settings, that it was recorded in",
            )
        found.append(stored)
    *states, observations = found
    leaves = iter(states)
    return jax.tree.map(lambda _: next(leaves), shapes[0]), observations


def record(
    policy: Policy, env: Environment[Any], keys: Array, *, greedy: bool = True, limit: int = LIMIT
) -> list[Recording]:
    """The episodes of these keys, one recording each."""
    _check(keys, limit)
    return _recorded(policy, env, keys, np.arange(len(keys)), greedy, limit)


def record_extremes(
    policy: Policy, env: Environment[Any], keys: Array, *, greedy: bool = True, limit: int = LIMIT
) -> dict[str, Recording]:
    """The best, the median and the worst episode of an evaluation with these keys.

    Which ones these are is known at the end only, and all states of all episodes are too many to keep: the same program
    runs twice, and keeps three episodes the second time.
    """
    _check(keys, limit)
    returns = np.zeros(len(keys))
    rows = np.zeros(3, np.int64)
    begun, _ = _begun(policy, env, keys, rows)
    for part in _parts(policy, env, begun, rows, greedy, limit):
        returns += np.asarray(part.reward, np.float64).sum(axis=0)
    order = np.argsort(returns, kind="stable")
    chosen = {"best": order[-1], "median": order[(len(order) - 1) // 2], "worst": order[0]}
    found = _recorded(policy, env, keys, np.array(list(chosen.values())), greedy, limit)
    return dict(zip(chosen, found, strict=True))


class _Part(NamedTuple):
    """Some steps of all episodes: time first, then episodes."""

    reward: Array
    happened: Array
    kept: tuple[Any, ...]
    """Of the chosen episodes: states and observations after each step, the decision, whether it ended them."""


def _recorded(
    policy: Policy, env: Environment[Any], keys: Array, rows: np.ndarray, greedy: bool, limit: int
) -> list[Recording]:
    begun, seen_first = _begun(policy, env, keys, rows)
    parts = [jax.tree.map(np.asarray, part) for part in _parts(policy, env, begun, rows, greedy, limit)]
    whole = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:limit], *parts)
    *after, decision, terminated = whole.kept
    seen = jax.tree.map(
        lambda one, rest: np.concatenate([np.asarray(one)[None], rest]), seen_first, tuple(after)
    )
    words = np.asarray(jax.random.key_data(keys))
    lengths = whole.happened.sum(axis=0)
    found = []
    for column, row in enumerate(rows):
        steps = int(lengths[row])
        states, observations = jax.tree.map(lambda leaf, c=column, end=steps + 1: leaf[:end, c], seen)
        actions, values, preferences = (
            leaf[:steps, column] for leaf in (decision.action, decision.value, decision.preferences)
        )
        ended = bool(terminated[steps - 1, column])
        rewards = whole.reward[:steps, row]
        found.append(
            Recording(
                env, words[row], greedy, ended, states, observations, actions, rewards, values, preferences
            )
        )
    return found


def _check(keys: Array, limit: int) -> None:
    checks.whole("record", "limit", limit)
    check_keys("record", keys)


def _parts(
    policy: Policy, env: Environment[Any], episodes: Episode, rows: np.ndarray, greedy: bool, limit: int
) -> Iterator[_Part]:
    """All episodes side by side, some steps at a time, until the last has ended or the limit is passed."""
    for _ in range(0, limit, _CHUNK):
        episodes, part = _went_on(policy, env, episodes, rows, greedy=greedy)
        yield part
        if np.asarray(episodes.over).all():
            return


def _seen(state: Any, observation: Array) -> tuple[Tree, Array]:
    return storable(state), observation


@eqx.filter_jit
def _begun(
    policy: Policy, env: Environment[Any], keys: Array, rows: ArrayLike
) -> tuple[Episode, tuple[Tree, Array]]:
    """All episodes before their first step, and what is to be seen of the chosen ones."""
    begun = jax.vmap(lambda key: first(policy, env, key))(keys)
    return begun, jax.tree.map(lambda leaf: leaf[jnp.asarray(rows)], _seen(begun.state, begun.observation))


@eqx.filter_jit
def _went_on(
    policy: Policy, env: Environment[Any], episodes: Episode, rows: ArrayLike, *, greedy: bool
) -> tuple[Episode, _Part]:
    def step(running: Episode, _: None) -> tuple[Episode, _Part]:
        after, moment = jax.vmap(lambda episode: following(policy, env, episode, greedy=greedy))(running)
        decision = moment.decision._replace(memory=())
        kept = (*_seen(after.state, after.observation), decision, after.terminated)
        return after, _Part(
            moment.reward, moment.happened, jax.tree.map(lambda leaf: leaf[jnp.asarray(rows)], kept)
        )

    return jax.lax.scan(step, episodes, None, length=_CHUNK)


__all__ = ["Recording", "record", "record_extremes"]
