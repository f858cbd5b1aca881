"""Named values of a network that can be read and replaced while it is traced.

Layers pass what matters through `tap(value, "resid_pre")`. Nobody watches as a rule: the value comes back as it is, and
the program is the same as without. Inside `watching(watch)` the watch sees each value under its full name, the parts
it lies in joined by dots (`blocks.0.resid_pre`), and what it returns takes the value's position. All of this happens
while JAX traces, so that a program with hooks is compiled, mapped and differentiated like any other. What watches is
part of the key under which JAX keeps compiled programs: a function that was compiled before is traced again.

`chainrule.explain.activations` is what people call.
"""

import abc
import contextlib
import contextvars
from collections.abc import Iterator

import jax

from chainrule.core.types import Array


class Watch(abc.ABC):
    """Looks at values by name, and may replace them."""

    @abc.abstractmethod
    def wants(self, name: str) -> bool:
        """Whether it has a use for this value; what takes extra work to make is made only then."""

    @abc.abstractmethod
    def at(self, name: str, value: Array) -> Array:
        """Called with every value that passes; the result goes on in its stead."""


_watch = jax.make_user_context(None)
_parts: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("parts", default=())


def watched() -> bool:
    """Whether anybody watches. Loops over layers are then written out, so that each has names of its own."""
    return _watch.value is not None


def wanted(name: str) -> bool:
    """Whether anybody wants this value of the present part."""
    watch: Watch | None = _watch.value
    return watch is not None and watch.wants(_full(name))


def tap(value: Array, name: str) -> Array:
    """The value, or what a watch puts in its stead."""
    watch: Watch | None = _watch.value
    return value if watch is None else watch.at(_full(name), value)


@contextlib.contextmanager
def inside(part: str) -> Iterator[None]:
    """Names from here on belong to this part."""
    token = _parts.set((*_parts.get(), part))
    try:
        yield
    finally:
        _parts.reset(token)


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Everything traced from here on is watched."""
    token = _parts.set(())
    try:
        with _watch(watch):
            yield
    finally:
        _parts.reset(token)


def _full(name: str) -> str:
    return ".".join((*_parts.get(), name))


__all__ = ["Watch", "inside", "tap", "wanted", "watched", "watching"]
