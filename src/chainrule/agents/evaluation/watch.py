"""The stability watch: what goes wrong while agents learn, in words, with what helps.

Learning by reward fails silently: every number stays finite while the policy stops exploring, the critic predicts
noise, or values grow beyond anything that can be earned. Each rule here looks at the history of a run for one such
failure; it needs no more than what had been seen at the moment it fires, so that an alarm raised while a run goes on is
the one its report shows. What is known about the problem (`Facts`) makes more rules apply.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from chainrule.core import tree
from chainrule.core.formatting import number
from chainrule.core.types import Tree
from chainrule.models.protocol import Alarm
from chainrule.train.history import curve

History: TypeAlias = Mapping[str, np.ndarray]
"""Columns `step`, `split` and every number that was logged; not a number where a line has none."""

_COLLAPSED = 0.02
"""Share of the entropy of equal choice below which a policy no longer explores."""
_UNDECIDED = 0.99
"""Share of it above which all actions are as good as equally likely."""
_SPIKE = 0.1
"""Divergence of a policy from the one before, in nats: ten times what trust regions allow."""
_LINES = 5
"""Lines of metrics that must agree before something is called lasting."""
_WARM_UP = 0.2
"""Share of a run before which little can have been learnt yet."""
_JUDGED = 3
"""Evaluations that must agree."""
_EDGE = 0.025
"""Share of a range of returns that counts as its end."""
_FEWEST_BATCHES = 10
_SAME = 0.999


@final
@dataclass(frozen=True)
class Facts:
    """What is known about a problem and the settings of a run; None where it is not."""

    actions: int | None = None
    """How many actions there are, where they are finitely many."""
    gamma: float | None = None
    rewards: tuple[float, float] | None = None
    """The lowest and the highest reward that have been seen."""
    rewards_known: bool = False
    """Whether there are no others; else only a run that says what it has met (`reward_max`) is judged by them."""
    random_return: float | None = None
    """Mean return of random actions."""
    random_error: float = 0.0
    """Its standard error."""
    solved: float | None = None
    """Mean return that counts as solved."""
    batch: int | None = None
    buffer: int | None = None
    learning_start: int | None = None
    steps: int | None = None
    """Of the whole run."""
    earned: bool = True
    """Whether agents learn from what is earned; else returns while learning are not those that are judged."""
    sayable: tuple[float, float] | None = None
    """The lowest and the highest return that the values of an agent can be, where settings bound them."""


def watch(history: History, facts: Facts | None = None, state: Tree = None) -> list[str]:
    """What has gone wrong by the end of a history, in words; see `alarms`.

    >>> steps = np.arange(1, 13) * 1000
    >>> kl = np.where(steps == 4000, 0.7, 0.01)
    >>> watch({"step": steps, "split": np.full(12, "train"), "kl": kl})[0].split(":")[0]
    'the policy jumped at step 4,000'
    """
    return [alarm.text for alarm in alarms(history, facts, state)]


def alarms(history: History, facts: Facts | None = None, state: Tree = None) -> list[Alarm]:
    """What has gone wrong by the end of a history, each alarm with its step, cause and remedy.

    `state` is that of the learner, in which the first array that is not finite is looked for.
    """
    facts = Facts() if facts is None else facts
    rules = (
        _entropy_collapsed,
        _kl_spiked,
        _critic_useless,
        _values_too_high,
        _values_cut_off,
        _buffer_young,
        _no_better_than_random,
    )
    found = [_not_finite(history, state), *(rule(history, facts) for rule in rules)]
    found += [_one_action(history, facts), _undecided(history, facts)]
    return sorted((alarm for alarm in found if alarm is not None), key=lambda alarm: alarm.step)


def _entropy_collapsed(history: History, facts: Facts) -> Alarm | None:
    steps, entropy = curve(history, "entropy")
    full = _equal_choice(facts) or (float(entropy[0]) if len(entropy) else 0.0)
    if full <= 0 or (at := _first(entropy < _COLLAPSED * full)) is None:
        return None
    when, returns = _returns(history) if facts.earned else _judged(history)
    before, after = returns[when <= steps[at]], returns[when > steps[at]]
    if len(before) < 1 or len(after) < _LINES or (facts.solved is not None and returns.max() >= facts.solved):
        return None
    if after[:_LINES].max() > before.max() + 0.02 * abs(before.max()):
        return None  # a policy that is nearly sure and still gets better needs no help
    return Alarm(
        "entropy collapsed",
        int(steps[at]),
        f"the policy stopped exploring at step {steps[at]:,}: its entropy fell to {number(entropy[at], 2)} of at most "
        f"{number(full, 2)} nats, and returns have not risen since. It repeats what it knows. "
        "Raise the entropy bonus, lower the learning rate, or try other seeds",
    )


def _kl_spiked(history: History, facts: Facts) -> Alarm | None:
    del facts
    steps, kl = curve(history, "kl")
    if (at := _first(kl > _SPIKE)) is None:
        return None
    return Alarm(
        "KL spike",
        int(steps[at]),
        f"the policy jumped at step {steps[at]:,}: the updates of one round moved it by a KL of {number(kl[at], 2)} "
        f"(healthy: below {_SPIKE / 2:g}). What was gathered no longer fits the policy that learns from it. "
        "Lower the learning rate, use fewer epochs, or set target_kl",
    )


def _critic_useless(history: History, facts: Facts) -> Alarm | None:
    steps, explained = curve(history, "explained_variance")
    when, returns = _judged(history)
    solved = np.zeros(0) if facts.solved is None else when[returns >= facts.solved]
    if solved.size:  # returns that are all alike leave nothing to explain
        steps = steps[: np.searchsorted(steps, solved[0])]
    for end in range(_LINES, len(steps) + 1):
        if steps[end - 1] >= _warm(facts) and np.median(explained[end - _LINES : end]) < 0:
            return Alarm(
                "critic worse than a constant",
                int(steps[end - 1]),
                f"the critic predicts returns worse than their mean would (explained variance below 0 up to step "
                f"{steps[end - 1]:,}): advantages are mostly noise. Raise the weight of the value loss or the learning "
                "rate of the critic, or gather more steps in each round",
            )
    return None


def _values_too_high(history: History, facts: Facts) -> Alarm | None:
    steps, highest = curve(history, "q_max")
    if facts.rewards is None or facts.gamma is None or facts.gamma >= 1:
        return None
    met = curve(history, "reward_max")[1]
    if not met.size and not facts.rewards_known:
        return None
    # Where every reward is negative, the best is to end at once, which is worth 0.
    bound = max(facts.rewards[1], met.max(initial=0.0), 0.0) / (1 - facts.gamma)
    slack = 0.05 * max(map(abs, facts.rewards)) / (1 - facts.gamma)
    if (at := _first(highest > bound + slack)) is None:
        return None
    return Alarm(
        "values too high",
        int(steps[at]),
        f"a Q-value reached {number(highest[at], 3)} at step {steps[at]:,}, but no return can exceed "
        f"r_max / (1 - gamma) = {number(bound, 3)}: the maximum over noisy estimates feeds on itself. "
        "Use double targets, copy the target network less often, or lower the learning rate",
    )


def _values_cut_off(history: History, facts: Facts) -> Alarm | None:
    if facts.sayable is None:
        return None
    low, high = facts.sayable
    edge = _EDGE * (high - low)
    steps, highest = curve(history, "q_max")
    _, mean = curve(history, "q_mean")
    if (at := _lasting((highest >= high - edge) | (mean <= low + edge), _LINES)) is None:
        return None
    return Alarm(
        "values cut off",
        int(steps[at]),
        f"up to step {steps[at]:,} values lie at an end of the range from {number(low)} to {number(high)}, beyond "
        "which no return can be said: better and worse actions look the same there. Set lowest and highest to what "
        "discounted returns can be",
    )


def _buffer_young(history: History, facts: Facts) -> Alarm | None:
    steps, _ = curve(history, "buffer_fill")
    if facts.batch is None or facts.buffer is None or facts.learning_start is None:
        return None
    stored = min(facts.learning_start, facts.buffer)
    if stored >= _FEWEST_BATCHES * facts.batch or (at := _first(steps > facts.learning_start)) is None:
        return None
    return Alarm(
        "buffer too young",
        int(steps[at]),
        f"learning began with {stored:,} steps in the buffer, {stored / facts.batch:.1f} batches: the first updates "
        "see the same few steps again and again. "
        f"Set learning_start and buffer to {_FEWEST_BATCHES * facts.batch:,} or more",
    )


def _no_better_than_random(history: History, facts: Facts) -> Alarm | None:
    steps, returns = _judged(history)
    if facts.random_return is None:
        return None
    line = facts.random_return + 2 * facts.random_error + 0.01 * abs(facts.random_return)
    if (at := _lasting((returns <= line) & (steps >= _warm(facts)), _JUDGED)) is None:
        return None
    return Alarm(
        "no better than random",
        int(steps[at]),
        f"up to step {steps[at]:,} returns are no better than those of random actions "
        f"({number(facts.random_return)}): nothing has been learnt. Where rewards are so rare that chance never finds "
        "them there is nothing to learn from. Explore more, give rewards on the way, or use another algorithm",
    )


def _one_action(history: History, facts: Facts) -> Alarm | None:
    steps, share = curve(history, "action_share", "val")
    _, returns = _judged(history)
    if facts.actions == 1 or (facts.solved is not None and len(returns) and returns.max() >= facts.solved):
        return None
    learning = steps > (facts.learning_start or 0)  # before that there is nothing but a beginning to judge
    if (at := _lasting((share >= _SAME) & learning, _JUDGED)) is None:
        return None
    return Alarm(
        "one action only",
        int(steps[at]),
        f"up to step {steps[at]:,} the agent does the same whatever it sees. Either one action is best everywhere, or "
        "the policy has collapsed. Raise the entropy bonus or epsilon, or lower the learning rate",
    )


def _undecided(history: History, facts: Facts) -> Alarm | None:
    steps, entropy = curve(history, "entropy")
    full = _equal_choice(facts)
    undecided = (entropy >= _UNDECIDED * full) & (steps >= _warm(facts))
    if not full or (at := _lasting(undecided, 2 * _LINES)) is None:
        return None
    return Alarm(
        "all actions equal",
        int(steps[at]),
        f"up to step {steps[at]:,} all actions are still equally likely: the policy has not begun to decide. Lower the "
        "entropy bonus, raise the learning rate, or check that rewards depend on what is done",
    )


def _not_finite(history: History, state: Tree) -> Alarm | None:
    tensor = None if state is None else tree.first_nonfinite(state)
    rows = history["split"] == "train"
    steps = history["step"][rows]
    first: tuple[int, str] | None = None
    for name, column in history.items():
        if name in ("step", "split") or name in _MAY_BE_ABSENT:
            continue
        finite = np.isfinite(column[rows].astype(float))
        # A number that a line never has is none; one that was there and never comes back has become not finite.
        if finite.any() and not finite[-1]:
            at = int(np.flatnonzero(finite)[-1]) + 1
            if first is None or at < first[0]:
                first = (at, name)
    if first is None and tensor is None:
        return None
    step = int(steps[first[0]]) if first is not None else int(steps[-1]) if len(steps) else 0
    what = (
        f"{first[1]} is not finite from step {step:,} on"
        if first is not None
        else f"not finite at step {step:,}"
    )
    where = f"; first array: {tensor}" if tensor is not None else ""
    return Alarm(
        "not finite",
        step,
        f"{what}{where}. Go on from the last good checkpoint with a lower learning rate, or scale rewards",
    )


_OF_EPISODES = {"return_mean", "episode_length"}
_OF_GAMES = {"game_length", "first_share", "draw_share", "truncated_share", "resign_wrong"}
_MAY_BE_ABSENT = frozenset(_OF_EPISODES | _OF_GAMES)
"""Numbers of episodes and games that ended: a line in whose time none did has none."""


def _warm(facts: Facts) -> float:
    """The step from which on something should have been learnt; of a run of unknown length it is never said."""
    return np.inf if facts.steps is None else max(_WARM_UP * facts.steps, facts.learning_start or 0)


def _equal_choice(facts: Facts) -> float:
    """The entropy of equal choice; 0 where actions are not finitely many."""
    return math.log(facts.actions) if facts.actions else 0.0


def _returns(history: History) -> tuple[np.ndarray, np.ndarray]:
    """Returns on the way, or else those of evaluations."""
    found = curve(history, "return_mean")
    return found if len(found[0]) else curve(history, "return_mean", "val")


def _judged(history: History) -> tuple[np.ndarray, np.ndarray]:
    """Returns of evaluations, or else those on the way."""
    found = curve(history, "return_mean", "val")
    return found if len(found[0]) else curve(history, "return_mean")


def _first(true: Any) -> int | None:
    """Where a condition first holds."""
    return int(np.argmax(true)) if np.any(true) else None


def _lasting(true: np.ndarray, count: int) -> int | None:
    """Where a condition has first held so many times in a row."""
    run = 0
    for index, holds in enumerate(true):
        run = run + 1 if holds else 0
        if run >= count:
            return index
    return None


__all__ = ["Facts", "alarms", "watch"]
