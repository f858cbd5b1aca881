"""Checkpointing policies: which values the reverse pass finds stored, and which it computes again."""

import functools
from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any, TypeAlias

import jax

from chainrule.core.errors import ArgumentError, spell, suggest
from chainrule.derive.checkpointing import binomial
from chainrule.derive.checkpointing.steps import Chain, EquationSteps, Stage, Steps
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

    For a plain function the steps are the operations of its program.

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
        segment = functools.partial(_scheduled, policy=policy, snapshots=snapshots)
        return segment(f) if isinstance(f, Steps) else _by_equations(f, segment)
    whole = f.run(0, f.length) if isinstance(f, Steps) else f
    return whole if policy is None else _saving(whole, policy)


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
    wrapped: Callable[..., Any] = jax.checkpoint(f, policy=saved)
    return wrapped


def _scheduled(steps: Steps, *, policy: str | int, snapshots: int | None) -> Stage:
    if policy == "binomial":
        count = binomial.balanced(steps.length) if snapshots is None else snapshots
        binomial.repeats_needed(steps.length, count)
        return _revolve(steps, 0, steps.length, count)
    length = max(isqrt(steps.length), 1) if policy == "sqrt" else int(policy)
    starts = range(0, steps.length, length)
    segments = [steps.run(start, min(start + length, steps.length)) for start in starts]
    # The last segment is reversed as soon as it has run, so storing it costs nothing more than recomputing it would.
    return _compose([*(jax.checkpoint(segment) for segment in segments[:-1]), *segments[-1:]])


def _revolve(steps: Steps, start: int, end: int, snapshots: int) -> Stage:
    if end - start <= 1:
        return steps.run(start, end)
    middle = start + binomial.split(end - start, snapshots)
    first = jax.checkpoint(_revolve(steps, start, middle, snapshots))
    return _compose([first, _revolve(steps, middle, end, snapshots - 1)])


def _compose(stages: Sequence[Stage]) -> Stage:
    def apply(state: Any) -> Any:
        for stage in stages:
            state = stage(state)
        return state

    return apply


def _by_equations(f: Callable[..., Any], segment: Callable[[Steps], Stage]) -> Callable[..., Any]:
    @functools.wraps(f)
    def checkpointed(*args: Any) -> Any:
        traced = trace("checkpoint", f, args, abstract=True)
        steps = EquationSteps(traced.program)
        results = steps.leave(segment(steps)(steps.enter(traced.leaves)))
        return jax.tree.unflatten(traced.out_tree, results)

    return checkpointed


__all__ = ["Policy", "checkpoint"]
