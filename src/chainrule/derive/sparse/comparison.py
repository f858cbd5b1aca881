"""Comparison of all colourings that apply to a pattern: products, colours, lower bounds."""

from dataclasses import dataclass
from typing import Any, final

from chainrule.derive.sparse.coloring import METHODS, color
from chainrule.derive.sparse.coloring.result import Coloring
from chainrule.derive.sparse.compression import recipe
from chainrule.derive.sparse.patterns import Pattern

_SYMMETRIC = ("star", "acyclic", "distance-1")
_HEADINGS = ("method", "products", "colours", "at least", "order", "depth", "seconds")


@final
@dataclass(frozen=True)
class ColoringComparison:
    """Colourings by method, with what decompression needs of each."""

    colorings: dict[str, Coloring]
    products: dict[str, int]
    """Colours that something is read from; none for "distance-1", which does not determine the entries."""
    depth: dict[str, int]
    """Substitutions one after another; 0 where every entry is read directly."""

    def __str__(self) -> str:
        lines = [_HEADINGS]
        for method, made in self.colorings.items():
            facts = (self.products.get(method, "-"), made.num_colors, made.lower_bound, made.order)
            cells = (method, *facts, self.depth.get(method, "-"), f"{made.seconds:.3g}")
            lines.append(tuple(map(str, cells)))  # type: ignore[arg-type]  # as many as there are headings
        widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
        padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
        return "\n".join("  ".join(line).rstrip() for line in padded)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            method: {**made.to_json(), "products": self.products.get(method), "depth": self.depth.get(method)}
            for method, made in self.colorings.items()
        }


def compare(pattern: Any, order: Any = "auto", seed: int = 0, budget: float = 0.2) -> ColoringComparison:
    """Every method that applies to a pattern (or a SciPy sparse matrix): symmetric ones only where it is symmetric.

    For every graph distance-1 needs the fewest colours, then acyclic, star, and columns; with a zero diagonal columns
    may still need the fewest products, because then nothing has to be read from some colours.

    >>> path = Pattern([0, 0, 0, 1, 1, 1, 2, 2, 3, 3], [0, 1, 2, 0, 1, 3, 0, 2, 1, 3], (4, 4))
    >>> {method: made.num_colors for method, made in compare(path).colorings.items()}
    {'column': 3, 'row': 3, 'bidirectional': 3, 'bidirectional-acyclic': 3, 'star': 3, 'acyclic': 2, 'distance-1': 2}
    """
    if not isinstance(pattern, Pattern):
        pattern = Pattern.from_scipy(pattern)
    symmetric = pattern.shape[0] == pattern.shape[1] and pattern.unmatched() is None
    methods = [method for method in METHODS if symmetric or method not in _SYMMETRIC]
    colorings = {method: color(pattern, method, order, seed, budget) for method in methods}
    recipes = {method: recipe(made) for method, made in colorings.items() if method != "distance-1"}
    return ColoringComparison(
        colorings,
        {method: made.products for method, made in recipes.items()},
        {
            method: 0 if made.substitution is None else made.substitution.depth
            for method, made in recipes.items()
        },
    )


__all__ = ["ColoringComparison", "compare"]
