"""How much arithmetic it takes to train a transformer on text, before anything is built."""

from collections.abc import Mapping
from typing import Any


def operations(model: Mapping[str, Any], data: Mapping[str, Any], train: Mapping[str, Any]) -> float:
    """Additions and multiplications of a whole training (Kaplan et al., 2020).

    Six for every weight and token, of which a third on the way forward; attention adds twelve for every layer, entry of
    a vector, token and position it looks back on.

    >>> settings = {"layers": 12, "width": 768}, {"vocab": 50257, "window": 1024}, {"batch": 480, "steps": 1}
    >>> f"{operations(*settings):.2e}"
    '4.20e+14'
    """
    layers, width = model["layers"], model["width"]
    weights = 12 * layers * width**2 + (data.get("vocab") or 0) * width
    tokens = float(train["batch"]) * data["window"] * train["steps"]
    return tokens * (6 * weights + 12 * layers * width * data["window"])


__all__ = ["operations"]
