"""Choice of the colouring for a Jacobian or Hessian, and its reason."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, final

import jax

from chainrule.derive.jaxprs.refusals import MISSING_RULE
from chainrule.derive.sparse.coloring import bounds, choose, color
from chainrule.derive.sparse.coloring.result import Coloring
from chainrule.derive.sparse.compression import CompressionRecipe, recipe
from chainrule.derive.sparse.patterns import Pattern

_SUBSTITUTION_PAYS = 0.75
"""Share of the products of a direct method below which rounding by substitution is worth it."""
_DEEPEST = 8
"""Substitutions one after another that "auto" accepts; rounding errors add up along them."""


@final
@dataclass(frozen=True)
class Choice:
    """A colouring, its recipe, and the reason."""

    coloring: Coloring
    recipe: CompressionRecipe
    reason: str
    colors: dict[str, dict[str, int]]


@final
@dataclass(frozen=True)
class Search:
    """How long and in which order to look for colours."""

    order: Any
    seed: int
    budget: float

    def color(self, pattern: Pattern, method: str) -> Coloring:
        """Colours by one method."""
        return color(pattern, method, self.order, self.seed, self.budget)


def requested(pattern: Pattern, method: str, search: Search) -> Choice:
    """The method the user named."""
    made = search.color(pattern, method)
    return Choice(made, recipe(made), "asked for", {method: made.counts})


def for_jacobian(pattern: Pattern, search: Search, prices: Callable[[], tuple[float, float]]) -> Choice:
    """Columns, rows or both directions, at the prices of the user's own products."""
    paid: list[tuple[float, float]] = []

    def remembered() -> tuple[float, float]:
        if not paid:
            paid.append(prices())
        return paid[0]

    made = choose(pattern, search.order, search.seed, search.budget, remembered)
    others = ", ".join(f"{name} {count}" for name, count in made.considered.items() if name != made.method)
    if others:
        reason = f"the least work ({others})"
    elif made.method == "bidirectional":
        reason = f"columns alone need at least {bounds.columns(pattern)}, rows alone {bounds.rows(pattern)}"
    else:
        reason = "neither rows nor both directions promise fewer products"
    if paid and isfinite(sum(paid[0])):
        reason += f"; a reverse product costs {paid[0][1] / paid[0][0]:.2g} times a forward one"
    colors = {made.method: made.counts}
    colors |= {name: {"best": n} for name, n in made.considered.items() if name != made.method}
    return Choice(made, recipe(made), reason, colors)


def for_hessian(pattern: Pattern, search: Search) -> Choice:
    """Star, unless columns need fewer products (zero diagonals) or substitution saves enough of them."""
    tried = [search.color(pattern, "star")]
    if bounds.columns(pattern) < tried[0].num_colors:
        tried.append(search.color(pattern, "column"))
    made = [(coloring, recipe(coloring)) for coloring in tried]
    best, found = min(made, key=lambda pair: pair[1].products)
    reason = "fewest products of the direct methods"
    if tried[0].lower_bound < _SUBSTITUTION_PAYS * found.products:
        acyclic = search.color(pattern, "acyclic")
        tried.append(acyclic)
        substituted = recipe(acyclic)
        shallow = substituted.substitution is not None and substituted.substitution.depth <= _DEEPEST
        if shallow and substituted.products <= _SUBSTITUTION_PAYS * found.products:
            reason = (
                f"substitution saves {found.products - substituted.products} of {found.products} products"
            )
            best, found = acyclic, substituted
        elif substituted.substitution is not None and substituted.products < found.products:
            depth = substituted.substitution.depth
            reason += f'; method="acyclic" needs {substituted.products}, by substitutions {depth} deep'
    best = replace(best, considered={coloring.method: coloring.num_colors for coloring in tried})
    return Choice(best, found, reason, {coloring.method: coloring.counts for coloring in tried})


def operations(product: Callable[..., Any], *given: Any) -> float:
    """Operations of one product, by the compiler's count; infinite where there is no rule for it."""
    try:
        lowered = jax.jit(product).lower(*given)
    except MISSING_RULE:
        return float("inf")
    analysis: Any = lowered.cost_analysis()
    return max(float((analysis or {}).get("flops", 0.0)), 1.0)


__all__ = ["Choice", "Search", "for_hessian", "for_jacobian", "operations", "requested"]
