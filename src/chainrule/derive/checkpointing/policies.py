"""Checkpointing policies: which values the reverse pass finds stored, and which it computes again."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any, TypeAlias, final

import jax
from jax.extend.core import jaxpr_as_fun

from chainrule.core.errors import ArgumentError, spell, suggest
from chainrule.core.recomputation import recomputed
from chainrule.derive.checkpointing import binomial, chains, loops
from chainrule.derive.checkpointing.loops import CountedLoop
from chainrule.derive.checkpointing.steps import Chain, ProgramSteps, Stage, Steps
from chainrule.derive.jaxprs.refusals import NEEDS_VALUES
from chainrule.derive.jaxprs.tracing import trace

Policy: TypeAlias = str | int | Sequence[str] | Callable[..., Any] | None
_NAMED = ("sqrt", "binomial", "dots", "nothing")


def checkpoint(
    f: Callable[..., Any] | Steps | Sequence[Stage], policy: Policy = "sqrt", *, snapshots: int | None = None
) -> Callable[..., Any]:
    """The same function with a reverse pass that stores less and recomputes the rest.

    `f` is any JAX function, a list of stages (each a function of the state before it), a `Chain`, or a `Repeat`.

    | policy | stored |
    |---|---|
    | `None` | everything, as JAX does by itself |
    | `"sqrt"` | the state at the start of segments of about √K of the K steps: 2√K states, one more forward pass |
    | an integer | the same with segments of that length |
    | `"binomial"` | `snapshots` states, placed for the fewest recomputed steps; by default about as many as repeats |
    | `"dots"` | results of matrix products; everything else is recomputed |
    | `"nothing"` | only the arguments |
    | `["h", ...]` | values marked with `jax.ad_checkpoint.checkpoint_name` |
    | a policy of `jax.checkpoint_policies` | what it says, including offloading to the host |

    For a plain function the steps are those of its loops (`jax.lax.scan`) where they make up most of it, otherwise
    the operations of its program. Loops stay loops: compiling takes as long for a thousand steps as for ten. Second
    derivatives through `"binomial"` are those of `"sqrt"`. Where `f` branches in Python on values, every call (outside
    of compiled code) follows the branch that it takes.

    >>> import jax.numpy as jnp
    >>> from chainrule.derive.memory_timeline import memory
    >>> x = jnp.ones(1000)
    >>> chain = checkpoint([jnp.sin] * 16, "sqrt")
    >>> memory(lambda x: chain(x).sum(), x).peak // x.nbytes
    9
    """
    if isinstance(f, Sequence):
        f = Chain(f)
    if snapshots is not None and policy != "binomial":
        raise ArgumentError(f'checkpoint(snapshots={snapshots}): snapshots belong to policy="binomial"')
    if isinstance(policy, (str, int)) and _is_schedule(policy):
        cut = CheckpointSchedule(policy, snapshots)
        if snapshots is not None:
            binomial.repeats_needed(1, snapshots)
        return functools.partial(cut.chain, f) if isinstance(f, Chain) else _by_program(as_function(f), cut)
    whole = as_function(f)
    return whole if policy is None else _saving(whole, policy)


def as_function(f: Callable[..., Any] | Steps) -> Callable[..., Any]:
    """The function, or all steps as one."""
    return f.run(0, f.length) if isinstance(f, Steps) else f


@final
@dataclass(frozen=True)
class CheckpointSchedule:
    """A schedule: segments of some length (or of the square root of all), or a binomial one with snapshots."""

    policy: str | int
    snapshots: int | None

    def chain(self, steps: Steps, state: Any) -> Any:
        """Run successive steps."""
        if self.policy == "binomial":
            stages = [steps.run(one, one + 1) for one in range(steps.length)]
            return chains.revolved(stages, self._slots(steps.length), state)
        length = self._segment(steps.length)
        for start in range(0, steps.length, length):
            end = min(start + length, steps.length)
            segment = steps.run(start, end)
            # The last segment is reversed as soon as it has run: storing it takes no more than computing it again.
            state = segment(state) if end == steps.length else recomputed(segment)(state)
        return state

    def loop(self, loop: CountedLoop, *operands: Any) -> list[Any]:
        """Run a loop."""
        if self.policy == "binomial":
            return loops.revolved(loop, self._slots(loop.length), *operands)
        return loops.segmented(loop, self._segment(loop.length), *operands)

    def again(self, loop: CountedLoop) -> int:
        """How many steps of a loop are computed again."""
        if self.policy == "binomial":
            plan = binomial.schedule(loop.length, self._slots(loop.length))
            return sum(one[-1] for one in (*plan.stores, *plan.reversals))
        length = self._segment(loop.length)
        return length * loops.segments(loop, length)[0]

    def _slots(self, length: int) -> int:
        return binomial.balanced(length) if self.snapshots is None else self.snapshots

    def _segment(self, length: int) -> int:
        return max(isqrt(length), 1) if self.policy == "sqrt" else int(self.policy)


def _is_schedule(policy: str | int) -> bool:
    if isinstance(policy, str):
        return policy in ("sqrt", "binomial")
    if isinstance(policy, bool) or policy < 1:
        raise ArgumentError(f"checkpoint(policy={policy!r}): a segment has at least one step")
    return True


def _saving(f: Callable[..., Any], policy: Policy) -> Callable[..., Any]:
    if policy == "nothing":
        saved: Any = jax.checkpoint_policies.nothing_saveable
    elif policy == "dots":
        saved = jax.checkpoint_policies.dots_saveable
    elif callable(policy):
        saved = policy
    elif isinstance(policy, Sequence) and not isinstance(policy, str):
        saved = jax.checkpoint_policies.save_only_these_names(*policy)
    else:
        hint = suggest(policy, _NAMED) if isinstance(policy, str) else ""
        raise ArgumentError(
            f"checkpoint(policy={policy!r}): policy must be None, {spell(_NAMED)}{hint}",
            remedy="or a segment length, a list of checkpoint names, or a policy of jax.checkpoint_policies",
        )
    whole = recomputed(f, saved)

    @functools.wraps(f)
    def checkpointed(*args: Any) -> Any:
        try:
            return whole(*args)
        except NEEDS_VALUES:
            traced = trace("checkpoint", f, args, abstract=True, follow=True)
            results = recomputed(jaxpr_as_fun(traced.program), saved)(*traced.leaves)
            return jax.tree.unflatten(traced.out_tree, results)

    return checkpointed


def _by_program(f: Callable[..., Any], cut: CheckpointSchedule) -> Callable[..., Any]:
    @functools.wraps(f)
    def checkpointed(*args: Any) -> Any:
        traced = trace("checkpoint", f, args, abstract=True, follow=True)
        steps = ProgramSteps(traced.program)
        state = steps.enter(traced.leaves)
        state = steps.with_loops(cut.loop)(state) if steps.loops else cut.chain(steps, state)
        return jax.tree.unflatten(traced.out_tree, steps.leave(state))

    return checkpointed


__all__ = ["CheckpointSchedule", "Policy", "as_function", "checkpoint"]
