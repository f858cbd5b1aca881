"""Evaluation of a policy: whole episodes apart from training, the same random keys every time.

Every key is one episode. All of them go on side by side in one compiled program until the last has ended, so that
nothing is said about the beginning of long episodes only; an environment without an end is cut off at `limit`. The
function is pure: many agents are evaluated at once by `jax.vmap`.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.spaces import Discrete
from chainrule.agents.envs.wrappers.base import legal_actions
from chainrule.agents.learning.base import Decision, Policy
from chainrule.core import checks
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key, Tree

LIMIT = 10_000
"""Steps after which an episode is cut off, where the environment has no limit of its own that comes earlier."""


@final
class AgentEvaluation(eqx.Module):
    """What came of some episodes; a leading axis for each `jax.vmap` around it."""

    returns: Float[Array, "*agents episodes"]
    """Sums of rewards."""
    discounted: Float[Array, "*agents episodes"]
    """Sums of gamma^t r_t."""
    lengths: Int[Array, "*agents episodes"]
    """Steps."""
    terminated: Bool[Array, "*agents episodes"]
    """Whether an episode came to its own end; all others were cut off."""
    lowest: Float[Array, "*agents episodes"]
    """The smallest reward of a step."""
    highest: Float[Array, "*agents episodes"]
    """The largest reward of a step."""
    chosen: Int[Array, "*agents episodes actions"] | None
    """How often each of finitely many actions was taken."""
    greedy: bool = eqx.field(static=True)

    @property
    def truncated(self) -> Bool[Array, "*agents episodes"]:
        """Whether an episode was cut off."""
        return ~self.terminated

    def numbers(self) -> dict[str, float]:
        """Each quantity as one number over all episodes: for a line of metrics."""
        returns = np.asarray(self.returns, np.float64)
        found = {
            "return_mean": float(returns.mean()),
            "return_median": float(np.median(returns)),
            "return_min": float(returns.min()),
            "return_max": float(returns.max()),
            "return_discounted": float(np.asarray(self.discounted, np.float64).mean()),
            "episode_length": float(np.asarray(self.lengths).mean()),
            "truncated_share": 1.0 - float(np.asarray(self.terminated).mean()),
        }
        share = self.action_share()
        if share is not None:
            found["action_share"] = share
        return found

    def action_share(self) -> float | None:
        """How often an agent took the action that it took most often, the mean over agents."""
        if self.chosen is None:
            return None
        counts = np.asarray(self.chosen, np.float64).sum(axis=-2)
        return float((counts.max(axis=-1) / counts.sum(axis=-1)).mean())


def evaluate(
    policy: Policy,
    env: Environment[Any],
    keys: Array,
    *,
    greedy: bool = True,
    gamma: float = 0.99,
    limit: int = LIMIT,
) -> AgentEvaluation:
    """One episode for each key: the best the policy knows where `greedy`, else as it explores.

    >>> from chainrule.agents import envs
    >>> from chainrule.agents.evaluation.baselines import RandomPolicy
    >>> env = envs.make("cartpole")
    >>> found = evaluate(RandomPolicy(env.action_space), env, jax.random.split(jax.random.key(0), 20), greedy=False)
    >>> bool((found.returns == found.lengths).all())  # a reward of 1 for every step
    True
    """
    checks.whole("evaluate", "limit", limit)
    check_keys("evaluate", keys)
    return _evaluated(policy, env, keys, jnp.asarray(gamma, jnp.float32), greedy=greedy, limit=limit)


def check_keys(where: str, keys: Array) -> None:
    """Raise unless these are keys, one for each episode."""
    if not jax.dtypes.issubdtype(keys.dtype, jax.dtypes.prng_key) or keys.ndim != 1 or not len(keys):
        raise ArgumentError(
            f"{where}(keys=...): {keys.dtype}{list(keys.shape)}, but one random key for each episode is needed",
            remedy="jax.random.split(jax.random.key(0), 20)",
        )


class Episode(NamedTuple):
    """An episode on its way: all that its next step follows from."""

    state: Any
    observation: Array
    memory: Tree
    key: Key
    over: Bool[Array, ""]
    terminated: Bool[Array, ""]


class EpisodeStep(NamedTuple):
    """One step of an episode: what was decided, and what came of it."""

    decision: Decision
    reward: Float[Array, ""]
    happened: Bool[Array, ""]
    """False after the end, where a step only fills time until other episodes have ended, too."""


def first(policy: Policy, env: Environment[Any], key: Key) -> Episode:
    """How an episode begins."""
    reset_key, key = jax.random.split(key)
    state, observation = env.reset(reset_key)
    no = jnp.zeros((), bool)
    return Episode(state, observation, policy.start(), key, no, no)


def following(
    policy: Policy, env: Environment[Any], episode: Episode, *, greedy: bool
) -> tuple[Episode, EpisodeStep]:
    """How an episode goes on; after its end nothing changes."""
    key, act_key, step_key = jax.random.split(episode.key, 3)
    legal = legal_actions(env, episode.state)
    decision = policy.act(act_key, episode.observation, episode.memory, greedy=greedy, legal=legal)
    after = env.step(step_key, episode.state, decision.action)
    gone_on = Episode(
        after.state,
        after.observation,
        decision.memory,
        key,
        after.terminated | after.truncated,
        after.terminated,
    )
    happened = ~episode.over
    reward = jnp.where(happened, after.reward, 0).astype(jnp.float32)
    kept = jax.tree.map(lambda new, old: jnp.where(happened, new, old), gone_on, episode)
    return kept, EpisodeStep(decision, reward, happened)


@eqx.filter_jit
def _evaluated(
    policy: Policy,
    env: Environment[Any],
    keys: Array,
    gamma: Float[Array, ""],
    *,
    greedy: bool,
    limit: int,
) -> AgentEvaluation:
    space = env.action_space
    actions = space.n if isinstance(space, Discrete) else 0

    def going_on(carry: tuple[Array, Episode, _Sums]) -> Array:
        t, running, _ = carry
        return (t < limit) & ~running.over.all()

    def step(carry: tuple[Array, Episode, _Sums]) -> tuple[Array, Episode, _Sums]:
        t, running, sums = carry
        running, moment = jax.vmap(lambda episode: following(policy, env, episode, greedy=greedy))(running)
        return t + 1, running, sums.with_moment(moment, gamma)

    begun = jax.vmap(lambda key: first(policy, env, key))(keys)
    start = (jnp.zeros((), jnp.int32), begun, _Sums.none(len(keys), actions))
    _, ended, sums = jax.lax.while_loop(going_on, step, start)
    return AgentEvaluation(
        sums.returns,
        sums.discounted,
        sums.lengths,
        ended.terminated,
        sums.lowest,
        sums.highest,
        sums.chosen if actions else None,
        greedy,
    )


class _Sums(NamedTuple):
    """What is gathered along episodes that go on side by side."""

    weight: Float[Array, ""]
    """gamma^t"""
    returns: Float[Array, "episodes"]
    discounted: Float[Array, "episodes"]
    lengths: Int[Array, "episodes"]
    lowest: Float[Array, "episodes"]
    highest: Float[Array, "episodes"]
    chosen: Int[Array, "episodes actions"]

    @classmethod
    def none(cls, episodes: int, actions: int) -> "_Sums":
        zeros, far = jnp.zeros(episodes), jnp.full(episodes, jnp.inf)
        counts = jnp.zeros((episodes, actions), jnp.int32)
        return cls(jnp.ones(()), zeros, zeros, jnp.zeros(episodes, jnp.int32), far, -far, counts)

    def with_moment(self, moment: EpisodeStep, gamma: Float[Array, ""]) -> "_Sums":
        reward, happened, actions = moment.reward, moment.happened, self.chosen.shape[1]
        chosen = self.chosen
        if actions:
            taken = jax.nn.one_hot(moment.decision.action, actions, dtype=jnp.int32)
            chosen = chosen + taken * happened[:, None]
        return _Sums(
            gamma * self.weight,
            self.returns + reward,
            self.discounted + self.weight * reward,
            self.lengths + happened,
            jnp.where(happened, jnp.minimum(self.lowest, reward), self.lowest),
            jnp.where(happened, jnp.maximum(self.highest, reward), self.highest),
            chosen,
        )


__all__ = [
    "LIMIT",
    "AgentEvaluation",
    "Episode",
    "EpisodeStep",
    "check_keys",
    "evaluate",
    "first",
    "following",
]
