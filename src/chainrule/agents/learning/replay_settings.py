"""Settings around replay that have to fit together, checked where a learner is set up."""

from chainrule.core.errors import ArgumentError


def check_replay(
    steps: int, *, environments: int, buffer: int, batch: int, learning_start: int, update_every: int
) -> None:
    """Refuse settings with which nothing would be learnt, or blocks of steps would not fit into the ring."""
    if batch > buffer:
        raise ArgumentError(
            f"batch={batch}: the buffer holds {buffer} steps",
            remedy=f"set batch to {buffer} at most, or buffer to {batch} at least",
        )
    if steps <= learning_start:
        raise ArgumentError(
            f"steps={steps}: nothing is learnt before step {learning_start}",
            remedy=f"train for longer, or set learning_start below {steps}",
        )
    check_multiple("update_every", update_every, "environments", environments)
    check_multiple("buffer", buffer, "update_every", update_every)


def check_multiple(name: str, value: int, of: str, unit: int) -> None:
    """Refuse a setting that is no multiple of another; the nearest ones are named.

    >>> check_multiple("buffer", 25, "update_every", 10)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: buffer=25: must be a multiple of update_every=10
           use 20 or 30
    """
    if value % unit:
        below, above = value // unit * unit, -(-value // unit) * unit
        fitting = " or ".join(str(n) for n in (below, above) if n)
        raise ArgumentError(f"{name}={value}: must be a multiple of {of}={unit}", remedy=f"use {fitting}")


__all__ = ["check_multiple", "check_replay"]
