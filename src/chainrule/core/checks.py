"""Checks of arguments that many functions share: whole numbers, sizes, shapes, numbers of classes.

Each raises an `ArgumentError` that names the function, the argument and its value. Shapes are known while a function is
traced, numbers in arrays are not: `check_class_numbers` looks at them outside of compiled code only.
"""

import operator
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from chainrule.core.errors import ArgumentError


def whole(where: str, name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least `least`; NumPy's count, floats and booleans do not.

    >>> whole("Linear", "inputs", np.int64(3))
    3
    >>> whole("Linear", "inputs", 3.0)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Linear(inputs=3.0): inputs must be a whole number of at least 1
           use int(...) where it comes from a division: inputs=3
    """
    wanted = f"{name} must be a whole number of at least {least}"
    try:
        number = operator.index(value)
    except TypeError:
        remedy = ""
        if isinstance(value, float | np.floating) and value.is_integer() and value >= least:
            remedy = f"use int(...) where it comes from a division: {name}={int(value)}"
        raise ArgumentError(f"{where}({name}={value!r}): {wanted}", remedy=remedy) from None
    if isinstance(value, bool | np.bool_) or number < least:
        raise ArgumentError(f"{where}({name}={value}): {wanted}")
    return number


def share(where: str, name: str, value: Any, meaning: str) -> float:
    """A number from 0 to below 1.

    >>> share("Dropout", "p", 1.5, "the share that is dropped")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Dropout(p=1.5): p is the share that is dropped and must lie in [0, 1)
    """
    if not isinstance(value, int | float | np.number) or not 0 <= value < 1:
        raise ArgumentError(f"{where}({name}={value!r}): {name} is {meaning} and must lie in [0, 1)")
    return float(value)


def check_features(where: str, x: Any, features: int) -> None:
    """Raise unless the last axis has this many entries.

    >>> check_features("Linear", np.zeros((4, 3)), 5)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Linear: the input of shape (4, 3) has 3 features, the layer takes 5
           features come last
    """
    if not x.ndim or x.shape[-1] != features:
        found = x.shape[-1] if x.ndim else "no"
        raise ArgumentError(
            f"{where}: the input of shape {x.shape} has {found} features, the layer takes {features}",
            remedy="features come last",
        )


def check_same_shape(where: str, first: str, a: Any, second: str, b: Any) -> None:
    """Raise unless two arrays have one shape; broadcasting would compare every example with every other.

    >>> check_same_shape("squared_error", "predicted", np.zeros((4, 1)), "target", np.zeros(4))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: squared_error: predicted has shape (4, 1), target has shape (4,)
           give both the same shape, for example predicted.reshape(target.shape)
    """
    if a.shape != b.shape:
        remedy = "give both the same shape"
        if a.size == b.size:
            remedy += f", for example {first}.reshape({second}.shape)"
        raise ArgumentError(
            f"{where}: {first} has shape {a.shape}, {second} has shape {b.shape}", remedy=remedy
        )


def check_class_numbers(where: str, name: str, numbers: Any, classes: int | Sequence[Any]) -> None:
    """Raise unless every number is that of a class; inside compiled code, where numbers are unknown, nothing happens.

    >>> check_class_numbers("cross_entropy", "targets", np.array([0, 3]), 3)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: cross_entropy: targets holds 3 at position 1; the 3 classes are numbered 0 to 2
    """
    if isinstance(numbers, jax.core.Tracer):
        return
    count = classes if isinstance(classes, int) else len(classes)
    found = np.asarray(numbers)
    for index in np.argwhere((found < 0) | (found >= count))[:1]:
        at = ", ".join(str(i) for i in index)
        raise ArgumentError(
            f"{where}: {name} holds {found[tuple(index)]}{f' at position {at}' if at else ''}; the {count} classes "
            f"are numbered 0 to {count - 1}"
        )


__all__ = ["check_class_numbers", "check_features", "check_same_shape", "share", "whole"]
