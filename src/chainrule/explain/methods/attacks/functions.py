"""Adversarial examples by function call: of a trained run in data units, of a model, or of a function of your own.

Wherever the classes `y` are None, those that are predicted take their place. `eps` is a number in the units of the
examples, or a fraction as text ("8/255"): a share of the range, where one is known. The bounds of a run are the range
of its data unless given.
"""

from jax.typing import ArrayLike

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.settings import quotient
from chainrule.core.types import Array, Key
from chainrule.explain.methods.attacks.aim import Aim, Attacked, aimed
from chainrule.explain.methods.attacks.attack import (
    Attack,
    AutomaticSteps,
    Iterated,
    SingleStep,
    SquareSearch,
    keys_of,
)
from chainrule.explain.methods.attacks.carrying_out import attacked, smallest_radii
from chainrule.nn.attacks import Bounds, Smallest, check_radius, largest_change


def fgsm(
    f: Attacked,
    x: ArrayLike,
    y: ArrayLike | None,
    eps: float | str,
    *,
    norm: str = "inf",
    loss: str = "cross-entropy",
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Array:
    """`x + eps sign(∇ loss)` of examples with these classes, kept inside the bounds.

    With `targeted`, `y` are the classes that shall be predicted, and the loss goes down. With `norm="2"` the step goes
    along the gradient and has length `eps`. `loss` may be "margin" in place of "cross-entropy".

    >>> import jax.numpy as jnp
    >>> w = jnp.array([[1.0, -1.0], [2.0, -2.0]])
    >>> fgsm(lambda x: x @ w, jnp.zeros((1, 2)), jnp.array([0]), 0.1)
    Array([[-0.1, -0.1]], dtype=float32)
    """
    return _carried_out("fgsm", f, x, y, eps, SingleStep(norm, loss), None, bounds, targeted)


def pgd(
    f: Attacked,
    x: ArrayLike,
    y: ArrayLike | None,
    eps: float | str,
    steps: int = 40,
    *,
    step: float | None = None,
    norm: str = "inf",
    loss: str = "cross-entropy",
    momentum: float = 0.0,
    restarts: int = 1,
    random_start: bool = True,
    key: Key | None = None,
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Array:
    """`steps` of `2.5 eps / steps` up the loss, each projected onto the ball of radius `eps`.

    It starts at a random point of the ball, by a `key` that is always the same unless given. Of all points on the way,
    and of several `restarts`, every example keeps the one at which another class is furthest ahead.
    """
    attack = Iterated(norm, loss, steps, step, momentum, restarts, random_start)
    return _carried_out("pgd", f, x, y, eps, attack, key, bounds, targeted)


def auto_pgd(
    f: Attacked,
    x: ArrayLike,
    y: ArrayLike | None,
    eps: float | str,
    steps: int = 100,
    *,
    norm: str = "inf",
    loss: str = "margin",
    restarts: int = 1,
    key: Key | None = None,
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Array:
    """An iterated attack whose steps find their own length, example by example (Auto-PGD)."""
    attack = AutomaticSteps(norm, loss, steps, restarts)
    return _carried_out("auto_pgd", f, x, y, eps, attack, key, bounds, targeted)


def square_attack(
    f: Attacked,
    x: ArrayLike,
    y: ArrayLike | None,
    eps: float | str,
    queries: int = 1000,
    *,
    norm: str = "inf",
    loss: str = "margin",
    restarts: int = 1,
    key: Key | None = None,
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Array:
    """Random search that asks for outputs only, `queries` times for every example.

    `f` may be any function of NumPy arrays.
    """
    attack = SquareSearch(norm, loss, queries, restarts)
    return _carried_out("square_attack", f, x, y, eps, attack, key, bounds, targeted)


def smallest_eps(
    f: Attacked,
    x: ArrayLike,
    y: ArrayLike | None,
    largest: float | str | None = None,
    steps: int = 20,
    *,
    norm: str = "inf",
    loss: str = "margin",
    restarts: int = 1,
    rounds: int = 10,
    key: Key | None = None,
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Smallest:
    """The smallest `eps` at which the iterated attack works, example by example, by bisection from `largest` down.

    0 where an example is wrong already, infinite where `largest` (the range of the data unless given) is not enough.
    The true distance to the nearest error is at most this one.
    """
    attack = Iterated(norm, loss, steps, restarts=restarts)
    attack.check("smallest_eps")
    whole("smallest_eps", "rounds", rounds)
    aim = aimed("smallest_eps", f, x, y, bounds=bounds, targeted=targeted)
    check_classes("smallest_eps", aim)
    most = _largest(aim, norm) if largest is None else checked_eps("smallest_eps", largest, aim, norm)
    return smallest_radii(aim, attack, most, keys_of(key), rounds=rounds, targeted=targeted)


def checked_eps(where: str, eps: float | str, aim: Aim, norm: str) -> float:
    """A radius as a number that an example can be changed by; a fraction is a share of the range where one is known."""
    try:
        number = float(quotient(eps))
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{where}(eps={eps!r}): eps must be a number or a fraction such as '8/255'"
        ) from None
    if isinstance(eps, str) and "/" in eps and aim.bounds is not None:
        number *= largest_change(aim.bounds, aim.x.shape[1:], norm)
    check_radius(where, number, aim.bounds, aim.x.shape[1:], norm)
    return number


def check_classes(where: str, aim: Aim) -> None:
    """Refuse what predicts no class where answers are right or wrong."""
    if not aim.victim.classes:
        raise ArgumentError(f"{where}: the model predicts no class", remedy="use fgsm or pgd on its own loss")


def _largest(aim: Aim, norm: str) -> float:
    if aim.bounds is None:
        raise ArgumentError(
            "smallest_eps(largest=None): the range of the examples is not known",
            remedy="give largest=, or bounds=(low, high)",
        )
    return largest_change(aim.bounds, aim.x.shape[1:], norm)


def _carried_out(
    where: str,
    f: Attacked,
    x: ArrayLike,
    y: ArrayLike | None,
    eps: float | str,
    attack: Attack,
    key: Key | None,
    bounds: Bounds | None,
    targeted: bool,
) -> Array:
    attack.check(where)
    aim = aimed(where, f, x, y, bounds=bounds, targeted=targeted, gradient=attack.needs_gradient)
    if not aim.victim.classes and (attack.loss == "margin" or attack.restarts > 1):
        check_classes(where, aim)
    radius = checked_eps(where, eps, aim, attack.norm)
    return attacked(aim, attack, radius, keys_of(key), targeted=targeted)


__all__ = ["auto_pgd", "checked_eps", "fgsm", "pgd", "smallest_eps", "square_attack"]
