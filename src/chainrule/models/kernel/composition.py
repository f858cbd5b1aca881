"""Kernels that settings name: one, or a sum of products of several, such as `rbf+linear*periodic`.

Sums are of functions that are added, products of functions that are multiplied: a trend and a season, a season that
fades. `*` binds tighter than `+`.
"""

import functools
import math
import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, Field

from chainrule.core.errors import suggest
from chainrule.kernels import (
    RBF,
    ArcCosine,
    Kernel,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
)

Part: TypeAlias = Literal[
    "rbf",
    "matern12",
    "matern32",
    "matern52",
    "rational-quadratic",
    "linear",
    "polynomial",
    "periodic",
    "arc-cosine",
]
"""Kernels that have a name."""
PARTS: tuple[str, ...] = get_args(Part)
WITHOUT_SCALE = ("linear", "polynomial", "periodic", "arc-cosine")
"""Names of kernels that are no functions of a distance and its scale."""


def terms(kernel: str) -> tuple[tuple[str, ...], ...]:
    """The names of a sum of products.

    >>> terms("rbf+linear*periodic")
    (('rbf',), ('linear', 'periodic'))
    """
    return tuple(tuple(name.strip() for name in term.split("*")) for term in kernel.split("+"))


def names(kernel: str) -> tuple[str, ...]:
    """All names in it, in order."""
    return tuple(name for term in terms(kernel) for name in term)


def has_scale(kernel: str) -> bool:
    """Whether a part of it is a kernel of distances.

    >>> has_scale("linear+periodic"), has_scale("linear*rbf")
    (False, True)
    """
    return any(name not in WITHOUT_SCALE for name in names(kernel))


def has_frequencies(kernel: str) -> bool:
    """Whether it is a product of kernels of distances, which random frequencies stand for."""
    return len(terms(kernel)) == 1 and all(name not in WITHOUT_SCALE for name in names(kernel))


def axes(kernel: str, features: int, degree: int) -> float:
    """How many directions its features vary along at most: few for polynomials of few columns, else infinitely many.

    >>> axes("linear", 3, 1), axes("polynomial", 2, 2), axes("linear+linear*linear", 2, 1), axes("rbf+linear", 2, 1)
    (3, 5, 5, inf)
    """
    if any(name not in ("linear", "polynomial") for name in names(kernel)):
        return math.inf
    degrees: set[int] = set()
    for term in terms(kernel):
        of_term = {0}
        for name in term:
            own = {1} if name == "linear" else set(range(degree + 1))
            of_term = {a + b for a in of_term for b in own}
        degrees |= of_term
    return sum(math.comb(features + one - 1, one) for one in degrees if one)


def kernel_of(
    name: str,
    scale: Any = 1.0,
    degree: int = 3,
    period: float = 1.0,
    order: int = 1,
    weighted: Callable[[Kernel], Kernel] = lambda kernel: kernel,
) -> Kernel:
    """The kernel of a name, or of a sum of products of names; `weighted` is what becomes of each term of a sum.

    Kernels of inner products and periodic ones have no scale of their own, and one is added to inner products of
    polynomials.
    """
    known: dict[str, Callable[[], Kernel]] = {
        "rbf": lambda: RBF(scale),
        "matern12": lambda: Matern(0.5, scale),
        "matern32": lambda: Matern(1.5, scale),
        "matern52": lambda: Matern(2.5, scale),
        "rational-quadratic": lambda: RationalQuadratic(scale),
        "linear": lambda: Linear(),
        "polynomial": lambda: Polynomial(degree, 1.0),
        "periodic": lambda: Periodic(1.0, period),
        "arc-cosine": lambda: ArcCosine(order),
    }
    every = [functools.reduce(operator.mul, (known[one]() for one in term)) for term in terms(name)]
    return functools.reduce(operator.add, (weighted(one) for one in every))


def _known(kernel: str) -> str:
    """The expression without blanks; a name that is none is refused."""
    for name in names(kernel):
        if name not in PARTS:
            raise ValueError(
                f"{name!r} is no kernel{suggest(name, PARTS)}; give a sum or product of several, such as "
                "rbf+linear*periodic"
            )
    return "+".join("*".join(term) for term in terms(kernel))


KernelName: TypeAlias = Annotated[
    Annotated[str, AfterValidator(_known), Field(max_length=200)] | Part,
    Field(
        description="similarity of two examples; matern12 to matern52: rough to smooth; linear, polynomial and "
        "arc-cosine: of their inner product; periodic: of what repeats; or a sum or product of them, such as "
        "'rbf+linear*periodic', in quotes"
    ),
]

__all__ = [
    "PARTS",
    "WITHOUT_SCALE",
    "KernelName",
    "Part",
    "axes",
    "has_frequencies",
    "has_scale",
    "kernel_of",
    "names",
    "terms",
]
