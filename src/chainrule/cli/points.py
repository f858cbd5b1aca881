"""Points to differentiate at, as written on the command line: read as data and never evaluated.

| written | means |
|---|---|
| `3.0`, `[1, 2]`, `{"w": [1, 2]}` | JSON: a number, an array, a dictionary of arrays |
| `zeros(4,3)`, `ones(10)`, `normal(100)` | an array of that shape; `normal` is standard normal with seed 0 |
| `@point.npy`, `@point.npz` | an array, or a dictionary of arrays, from a file |
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError

_MADE: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
    "zeros": np.zeros,
    "ones": np.ones,
    "normal": lambda shape: np.random.default_rng(0).standard_normal(shape),
}


def point(text: str) -> Any:
    """The arrays a text describes.

    >>> point("ones(2,3)").shape
    (2, 3)
    >>> point('{"w": [1, 2]}')
    {'w': array([1., 2.])}
    """
    if text.startswith("@"):
        return _file(Path(text[1:]).expanduser())
    made = re.fullmatch(r"(\w+)\(([\d\s,]*)\)", text.strip())
    if made:
        if made[1] not in _MADE:
            raise ArgumentError(f"--at {text}: {made[1]} is not one of {', '.join(_MADE)}")
        return _MADE[made[1]](tuple(int(n) for n in made[2].split(",") if n.strip()))
    try:
        return _arrays(text, json.loads(text))
    except json.JSONDecodeError:
        raise ArgumentError(
            f"--at {text}: not a point",
            remedy='write a number, a list such as "[1.0, 2.0]", a shape such as "normal(100)", or @file.npy',
        ) from None


def _arrays(text: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _arrays(text, inner) for name, inner in value.items()}
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"--at {text}: {value!r} is not an array of numbers") from None


def _file(path: Path) -> Any:
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"--at @{path}: cannot be read ({str(error).splitlines()[0]})") from None
    return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}


__all__ = ["point"]
