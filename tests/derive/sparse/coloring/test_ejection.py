"""Star colourings with a colour given up are star colourings."""

import numpy as np
import pytest

from chainrule.derive.sparse import Pattern, color
from chainrule.derive.sparse.coloring import bounds, ejection, exact, graphs
from tests.derive.sparse.coloring import oracle
from tests.derive.sparse.coloring.graphs import band_with_hubs, network


def improved(pattern: Pattern, least: int = 2) -> tuple[int, tuple[np.ndarray, int] | None]:
    """Colours by first fit, and what is left of them."""
    first = color(pattern, "star", "natural")
    graph = graphs.adjacency("test", pattern)
    return first.num_colors, ejection.improved(graph, first.colors, first.num_colors, least, deadline=1.0)


@pytest.mark.parametrize("density", [1, 2, 4])
def test_what_is_repaired_is_a_star_colouring_with_fewer_colours(density: int) -> None:
    saved = 0
    for seed in range(6):
        pattern = network(30, 30 * density, seed)
        before, found = improved(pattern)
        if found is not None:
            colors, count = found
            assert count < before
            assert set(colors.tolist()) <= set(range(count))
            assert oracle.is_star(pattern, colors)
            saved += before - count
    assert saved > 0


def test_nothing_is_found_below_the_fewest_colours_there_are() -> None:
    for seed in range(6):
        pattern = network(9, 14, seed)
        graph = graphs.adjacency("test", pattern)
        beside = exact.beside(graph)
        fewest = exact.fewest(beside, exact.rule("star", beside), 1, 10)
        assert fewest is not None
        before, found = improved(pattern, least=1)
        assert fewest[1] <= (before if found is None else found[1])
        assert bounds.forests(graph) <= fewest[1]


def test_the_bound_is_not_above_the_fewest_acyclic_colours_and_sees_a_dense_part() -> None:
    for seed in range(12):
        graph = graphs.adjacency("test", network(8, 6 + 2 * seed, seed))
        beside = exact.beside(graph)
        fewest = exact.fewest(beside, exact.rule("acyclic", beside), 1, 9)
        assert fewest is not None
        assert bounds.forests(graph) <= fewest[1]
    rows, cols = np.nonzero(~np.eye(6, dtype=bool))
    alone = graphs.adjacency("test", Pattern(rows, cols, (100, 100)))  # six that all meet, among a hundred
    assert bounds.forests(alone) == 6


def test_given_what_cannot_be_improved_nothing_is_returned() -> None:
    wide = band_with_hubs(3000)  # around a hub lies the whole graph
    assert improved(wide)[1] is None
    _, found = improved(Pattern([0, 1, 1, 2], [1, 0, 2, 1], (3, 3)))
    assert found is None
