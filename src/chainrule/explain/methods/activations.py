"""Activations by name: read all of a call's, or replace some of them by a function of one's own.

Transformer blocks name what they compute (`nn.TransformerBlock`), so that `run_with_cache(model.logits, x)` gives the
logits and every value on the way: `blocks.0.resid_pre`, `blocks.0.attention.pattern`, `blocks.0.mlp_out` and so on,
for models that are trained in a compiled loop or with recomputation too. `run_with_hooks` calls functions at such
names, and what they return goes on in the value's stead. Both compile the call with the hooks in it: calling them again
with the same functions costs one run. `hooked` puts hooks into whatever is called inside, such as `run.sample`.
"""

import contextlib
import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, final

import equinox as eqx
import jax

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array
from chainrule.nn.hooks import Watch, watching

Hook: TypeAlias = Callable[[Array, str], Array]
"""From a value and its name to what goes on in its stead, of the same shape."""
Names: TypeAlias = str | Sequence[str]
"""One name or several; `*` stands for anything: "*.resid_pre"."""


def run_with_cache(
    call: Callable[..., Any], *args: Any, names: Names = "*", **options: Any
) -> tuple[Any, dict[str, Array]]:
    """What `call(*args, **options)` returns, and the values with these names in the order in which they were made.

    >>> import chainrule as cr, jax.numpy as jnp
    >>> plays = cr.data.load("shakespeare", window=8)
    >>> model = cr.models.build("gpt", plays, layers=1, heads=2, width=8)
    >>> logits, cache = run_with_cache(model.logits, jnp.array([[1, 2, 3]]), names=["*.resid_p*", "*.pattern"])
    >>> {name: value.shape for name, value in cache.items()}  # doctest: +NORMALIZE_WHITESPACE
    {'blocks.0.resid_pre': (1, 3, 8), 'blocks.0.attention.pattern': (1, 2, 3, 3),
     'blocks.0.resid_post': (1, 3, 8)}
    """
    out, found = _compiled(call, args, options, {}, _several(names))
    return out, dict(zip(found.names, found.values, strict=True))


def run_with_hooks(call: Callable[..., Any], *args: Any, hooks: Mapping[str, Hook], **options: Any) -> Any:
    """What `call(*args, **options)` returns when functions replace the values of these names.

    A function that is a `jax.tree_util.Partial` may hold arrays, and others of the same shape need no new program.

    >>> import chainrule as cr, jax.numpy as jnp
    >>> plays = cr.data.load("shakespeare", window=8)
    >>> model = cr.models.build("gpt", plays, layers=1, heads=2, width=8)
    >>> hooks = {"blocks.0.attn_out": lambda value, name: jnp.zeros_like(value)}
    >>> run_with_hooks(model.logits, jnp.array([[1, 2, 3]]), hooks=hooks).shape[:2]
    (1, 3)
    """
    return _compiled(call, args, options, dict(hooks), ())[0]


@contextlib.contextmanager
def hooked(hooks: Mapping[str, Hook]) -> Iterator[None]:
    """Everything inside runs with these hooks: sampling, scores, programs that were compiled before.

    >>> import chainrule as cr, jax
    >>> plays = cr.data.load("shakespeare", window=8)
    >>> model = cr.models.build("gpt", plays, layers=1, heads=2, width=8)
    >>> with hooked({"blocks.0.resid_post": lambda value, name: value + 1.0}):
    ...     model.sample(jax.random.key(0), 1, prompt="To").shape
    (1, 10)
    """
    with _recorded(dict(hooks), ()):
        yield


def activation_names(call: Callable[..., Any], *args: Any, **options: Any) -> list[str]:
    """The names that a call passes, in its order; nothing is computed."""

    def passed(args: Any, options: Any) -> _Found:
        return watched_run(lambda: call(*args, **options), {}, ("*",))[1]

    return list(eqx.filter_eval_shape(passed, args, options).names)


@final
class _Found(eqx.Module):
    """Values in their order: a compiled function would sort a dictionary."""

    names: tuple[str, ...] = eqx.field(static=True)
    values: tuple[Array, ...]


def watched_run(
    call: Callable[[], Any], hooks: Mapping[str, Hook], names: Sequence[str]
) -> tuple[Any, _Found]:
    """The same inside of a program that is being traced."""
    with _recorded(hooks, names) as watch:
        out = call()
    return out, _Found(tuple(watch.found), tuple(watch.found.values()))


@contextlib.contextmanager
def _recorded(hooks: Mapping[str, Hook], names: Sequence[str]) -> "Iterator[_Recorder]":
    watch = _Recorder(hooks, names)
    with watching(watch):
        yield watch
    for wanted in (*hooks, *names):
        if not fnmatch.filter(watch.seen, wanted):
            raise _unknown(wanted, watch.seen)


@final
class _Recorder(Watch):
    """Keeps the values of some names and calls the hooks of others, the hooks first."""

    def __init__(self, hooks: Mapping[str, Hook], names: Sequence[str]) -> None:
        self.hooks, self.names = hooks, names
        self.seen: list[str] = []
        self.found: dict[str, Array] = {}

    def wants(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, wanted) for wanted in (*self.hooks, *self.names))

    def at(self, name: str, value: Array) -> Array:
        number = self.seen.count(name) + 1
        self.seen.append(name)
        for wanted, hook in self.hooks.items():
            if fnmatch.fnmatchcase(name, wanted):
                value = _replaced(hook, name, value)
        if any(fnmatch.fnmatchcase(name, wanted) for wanted in self.names):
            self.found[name if number == 1 else f"{name}#{number}"] = value
        return value


def _replaced(hook: Hook, name: str, value: Array) -> Array:
    found = hook(value, name)
    if getattr(found, "shape", None) != value.shape:
        shown = getattr(found, "shape", type(found).__name__)
        raise ArgumentError(
            f"the hook at {name} returned {shown} for a value of shape {value.shape}",
            remedy="return an array of the same shape: hook(value, name) -> value",
        )
    return found.astype(value.dtype)


@eqx.filter_jit
def _jitted(call: Any, args: Any, options: Any, hooks: Any, names: tuple[str, ...]) -> tuple[Any, _Found]:
    return watched_run(lambda: call(*args, **options), hooks, names)


def _compiled(
    call: Any, args: Any, options: Any, hooks: dict[str, Hook], names: tuple[str, ...]
) -> tuple[Any, _Found]:
    try:
        return _jitted(call, args, options, hooks, names)
    except jax.errors.UnexpectedTracerError as error:
        raise ArgumentError(
            "values inside of a loop or of a function that is compiled by itself cannot be given back",
            remedy="give the function itself: model.logits, not jax.jit(model.logits)",
        ) from error


def _several(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _unknown(name: str, known: Sequence[str]) -> ArgumentError:
    if not known:
        return ArgumentError(
            f"no activation {name!r}: the call passes none that has a name",
            remedy="models made of nn.TransformerBlock name theirs: gpt, bert, translator, vit",
        )
    shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
    return ArgumentError(f"no activation {name!r}{suggest(name, known)}", remedy=f"there are: {shown}")


__all__ = ["Hook", "Names", "activation_names", "hooked", "run_with_cache", "run_with_hooks", "watched_run"]
