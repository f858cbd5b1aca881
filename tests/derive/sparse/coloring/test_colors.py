"""Colour counts on known graphs, and validity on many random ones."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from chainrule.core.errors import ArgumentError
from chainrule.derive.sparse import METHODS, ORDERS, ColoringError, Pattern, color, compare
from chainrule.derive.sparse.coloring import bounds, first_fit, graphs, tabu
from tests.derive.sparse.coloring import oracle
from tests.derive.sparse.coloring.graphs import (
    NAMED,
    arrow,
    band_with_hubs,
    brusselator,
    from_rows,
    network,
    random_pattern,
    random_symmetric,
    symmetric,
)

EXACT = {
    "path of 4": (2, 2, 3, 3),
    "cycle of 4": (2, 3, 3, 4),
    "cycle of 5": (3, 3, 4, 5),
    "3 with 3": (2, 4, 4, 6),
    "grid of 3 by 3": (2, 3, 4, 5),
    "Petersen": (3, 4, 5, 10),
}
SYMMETRIC = ("distance-1", "acyclic", "star", "column")


@pytest.mark.parametrize("name", EXACT)
def test_small_graphs_get_exactly_as_few_colours_as_they_need(name: str) -> None:
    pattern = symmetric(*NAMED[name])
    found = [color(pattern, method) for method in SYMMETRIC]
    assert tuple(coloring.num_colors for coloring in found) == EXACT[name]
    assert all(coloring.optimal for coloring in found)


@pytest.mark.parametrize("name", EXACT)
def test_the_diagonal_plays_no_part_in_symmetric_colourings(name: str) -> None:
    pattern = symmetric(*NAMED[name], diagonal=False)
    found = tuple(color(pattern, method).num_colors for method in SYMMETRIC[:3])
    assert found == EXACT[name][:3]


def test_columns_and_rows_of_the_textbook_example_need_two_groups_each() -> None:
    pattern = from_rows([{1, 3}, {3, 4}, {1, 2}, {0, 2}], 5)
    for method in ("column", "row"):
        found = color(pattern, method)
        assert found.num_colors == found.lower_bound == 2
        found.check()
    assert color(from_rows([{2}, {0, 1}, {0, 1}], 3), "column").num_colors == 2


@pytest.mark.parametrize("trials", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_graphs_are_coloured_validly_by_every_method_and_order(trials: int) -> None:
    draw = np.random.default_rng(0)
    truth = {"distance-1": oracle.is_proper, "star": oracle.is_star, "acyclic": oracle.is_acyclic}
    for trial in range(trials):
        pattern = random_symmetric(draw, most=16)
        order = ORDERS[trial % len(ORDERS)]
        for method, holds in truth.items():
            found = color(pattern, method, order, seed=trial)
            assert isinstance(found.colors, np.ndarray)
            assert holds(pattern, found.colors), (trial, method, order)
            assert found.lower_bound <= found.num_colors == found.colors.max() + 1


@pytest.mark.parametrize("order", ORDERS)
def test_columns_rows_and_both_directions_are_valid_on_random_patterns(order: str) -> None:
    draw = np.random.default_rng(1)
    for _ in range(16):
        pattern = random_pattern(draw)
        full = np.zeros(pattern.shape, dtype=bool)
        full[pattern.rows, pattern.cols] = True
        by_column, by_row = color(pattern, "column", order), color(pattern, "row", order)
        assert oracle.separates(full, by_column.colors)
        assert oracle.separates(full.T, by_row.colors)
        both = color(pattern, "bidirectional", order)
        assert oracle.recovers(pattern, *both.colors, full)
        assert both.num_colors <= max(min(by_column.num_colors, by_row.num_colors), both.lower_bound) + 2
        trees = color(pattern, "bidirectional-acyclic", order)
        assert oracle.determines(pattern, *trees.colors)
        for coloring in (by_column, by_row, both, trees):
            coloring.check()
            assert coloring.lower_bound <= coloring.num_colors


def test_the_four_numbers_are_ordered_on_every_graph() -> None:
    draw = np.random.default_rng(2)
    for _ in range(25):
        pattern = random_symmetric(draw, most=9)
        diagonal = np.arange(pattern.shape[0])
        pattern = Pattern(
            np.concatenate([pattern.rows, diagonal]), np.concatenate([pattern.cols, diagonal]), pattern.shape
        )
        found = [color(pattern, method) for method in SYMMETRIC]
        counts = [coloring.num_colors for coloring in found]
        assert counts == sorted(counts)
        assert all(coloring.optimal for coloring in found)


@pytest.mark.parametrize(("size", "most"), [(30, 6), pytest.param(32, 8, marks=pytest.mark.slow)])
def test_a_periodic_stencil_is_coloured_in_closed_form(size: int, most: int) -> None:
    found = color(brusselator(size), "column")
    assert found.num_colors <= most
    assert found.counts["lattice"] == found.num_colors < found.counts["natural"]
    found.check()


def test_closed_forms_near_the_bound_are_taken_unless_there_is_time_to_spare() -> None:
    quick, patient = (color(brusselator(16), "column", budget=budget) for budget in (0.2, 2.0))
    assert set(quick.counts) == {"natural", "lattice"}
    assert quick.num_colors >= patient.num_colors
    assert "smallest-last" in patient.counts


def test_giving_colours_up_saves_star_colours_of_a_random_network() -> None:
    found = color(network(200, 600, seed=0), "star", budget=5.0)
    assert found.order == "ejection"
    assert found.num_colors <= 10 < min(count for name, count in found.counts.items() if name != "ejection")
    found.check()


def test_a_band_is_coloured_with_its_width() -> None:
    offsets = range(-3, 4)
    band = scipy.sparse.diags_array([1.0] * 7, offsets=list(offsets), shape=(50, 50))
    assert color(band).num_colors == 7
    assert color(band, order="random").num_colors >= 7


@pytest.mark.parametrize("n", [3, 10, 300])
def test_an_arrow_takes_two_forward_products_and_a_reverse_one(n: int) -> None:
    found = color(arrow(n))
    assert (found.method, found.num_colors) == ("bidirectional", 3) if n > 3 else found.num_colors == 3
    if n > 3:
        assert sorted((found.forward, found.reverse)) == [1, 2]
        assert found.optimal
    assert color(arrow(n), "column").num_colors == n
    assert color(arrow(n), "star").num_colors == 2
    found.check()


def test_a_band_with_dense_rows_and_columns_needs_sixteen_star_colours() -> None:
    for order in ("natural", "largest-first", "smallest-last"):
        found = color(band_with_hubs(400), "star", order)
        assert found.num_colors <= 16
        found.check()


def test_a_given_order_is_followed_and_gives_what_its_name_gives() -> None:
    pattern = brusselator(5)
    backwards = np.arange(pattern.shape[1])[::-1]
    found = color(pattern, "column", backwards)
    assert found.order == "given"
    assert found.colors[-1] == 0
    natural = color(pattern, "column", np.arange(pattern.shape[1]))
    assert np.array_equal(natural.colors, color(pattern, "column", "natural").colors)


def test_recolouring_and_orders_never_leave_more_colours_than_the_natural_order() -> None:
    draw = np.random.default_rng(3)
    for _ in range(8):
        pattern = random_symmetric(draw, most=60)
        for method in ("column", "star", "acyclic", "distance-1"):
            found = color(pattern, method, budget=0.05)
            assert found.num_colors <= found.counts["natural"]
            assert found.num_colors == min(found.counts.values())
            found.check()


def test_a_wrong_colour_is_found_and_its_entry_named() -> None:
    pattern = brusselator(4)
    for method in ("column", "row", "star", "acyclic", "distance-1"):
        found = color(pattern, method)
        assert isinstance(found.colors, np.ndarray)
        spoiled = found.colors.copy()
        spoiled[0] = spoiled[1]
        with pytest.raises(ColoringError, match=r"share colour|two colours|in colours"):
            replace(found, colors=spoiled).check()
    both = color(pattern, "bidirectional")
    gone = type(both.colors)(np.full_like(both.colors.rows, -1), np.full_like(both.colors.columns, 0))
    with pytest.raises(ColoringError, match=r"entry \(0, 0\)"):
        replace(both, colors=gone).check()
    square = color(Pattern([0, 0, 1, 1], [0, 1, 0, 1], (2, 2)), "bidirectional-acyclic")
    cycle = type(square.colors)(np.zeros(2, dtype=int), np.zeros(2, dtype=int))
    with pytest.raises(ColoringError, match="closes a cycle"):
        replace(square, colors=cycle).check()


def test_colours_can_be_evened_out_without_more_of_them() -> None:
    draw = np.random.default_rng(4)
    before = after = 0.0
    for _ in range(20):
        pattern = random_pattern(draw)
        for method in ("column", "row"):
            plain, balanced = (color(pattern, method, budget=0, balance=even) for even in (False, True))
            balanced.check()
            assert balanced.num_colors == plain.num_colors
            before += float(np.square(np.bincount(plain.colors)).sum())
            after += float(np.square(np.bincount(balanced.colors)).sum())
    assert after < before
    diagonal = scipy.sparse.diags_array([1.0, 1.0], offsets=[0, 1], shape=(9, 10))
    assert np.bincount(color(diagonal, "column", balance=True).colors).tolist() == [5, 5]
    with pytest.raises(ArgumentError, match="balance=True"):
        color(diagonal, "bidirectional", balance=True)


def test_tabu_search_finds_colours_that_no_order_finds() -> None:
    matrix = scipy.sparse.random_array((20, 20), density=0.15, rng=np.random.default_rng(0))
    pattern = Pattern.from_scipy(matrix)
    nets = graphs.columns(pattern)
    natural, count = first_fit.by_nets(nets, np.arange(20), 8)
    later = 60.0  # on a clock that stands still at nought
    found = tabu.improved(nets, natural, count, bounds.columns(pattern), later)
    assert found is not None
    colors, fewer = found
    assert fewer == bounds.columns(pattern) < count
    assert oracle.separates(matrix.toarray() != 0, colors)
    assert colors.max() + 1 == fewer
    again = tabu.improved(nets, natural, count, bounds.columns(pattern), later)
    assert again is not None
    assert np.array_equal(again[0], colors)
    assert tabu.improved(nets, colors, fewer, fewer, later) is None
    assert tabu.improved(nets, natural, count, fewer, 0.0) is None


def test_all_methods_that_apply_stand_side_by_side() -> None:
    found = compare(arrow(30), budget=0.05)
    assert list(found.colorings) == list(METHODS)
    assert found.products["column"] == 30
    assert found.products["bidirectional"] == 3
    assert found.products["star"] == 2
    assert "distance-1" not in found.products
    assert str(found).splitlines()[0].split()[:2] == ["method", "products"]
    assert len(str(found).splitlines()) == 1 + len(METHODS)
    assert found.to_json()["column"]["num_colors"] == 30
    narrow = compare(Pattern([0, 1], [0, 2], (2, 3)))
    assert "star" not in narrow.colorings
    swapped = compare(Pattern([0, 1], [1, 0], (2, 2)))
    assert (swapped.products["column"], swapped.colorings["distance-1"].num_colors) == (1, 2)


def test_every_entry_knows_the_product_it_is_read_from() -> None:
    found = color(arrow(8))
    groups = found.groups()
    assert groups.shape == (found.pattern.nnz,)
    assert set(groups.tolist()) == {0, 1, 2}
    hubs = groups[(found.pattern.rows == 0) & (found.pattern.cols > 0)]
    assert len(set(hubs.tolist())) == 1


def test_proper_colours_fail_the_stricter_checks() -> None:
    cycle = symmetric(*NAMED["cycle of 4"])
    proper = color(cycle, "distance-1")
    with pytest.raises(ColoringError, match="closes a cycle"):
        replace(proper, method="acyclic").check()
    with pytest.raises(ColoringError, match="path on four vertices"):
        replace(proper, method="star").check()


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (3, 4)])
def test_nothing_needs_no_colours(shape: tuple[int, int]) -> None:
    empty = Pattern([], [], shape)
    for method in ("auto", "column", "row", "bidirectional", "bidirectional-acyclic"):
        found = color(empty, method)
        assert found.num_colors == 0
        found.check()


def test_a_graph_without_edges_has_one_colour() -> None:
    for method in ("star", "acyclic", "distance-1"):
        assert color(Pattern([], [], (3, 3)), method).num_colors == 1
        assert color(Pattern([], [], (0, 0)), method).num_colors == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "rainbow"}, "method must be"),
        ({"order": "alphabetical"}, "order must be"),
        ({"method": "column", "order": [0, 0, 1]}, "must occur once"),
        ({"method": "column", "order": [0, 1]}, "3 whole numbers"),
        ({"method": "column", "order": [0.0, 1.0, 2.0]}, "3 whole numbers"),
        ({"order": [0, 1, 2]}, "needs a method"),
        ({"budget": -1.0}, "seconds"),
        ({"method": "star"}, r"holds \(0, 1\) but not \(1, 0\)"),
    ],
)
def test_what_cannot_be_coloured_is_refused_by_name(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        color(Pattern([0, 2], [1, 2], (3, 3)), **arguments)  # type: ignore[arg-type]


def test_a_rectangle_is_not_symmetric_and_a_list_is_no_pattern() -> None:
    with pytest.raises(ArgumentError, match=r"shape \(2, 3\) is not symmetric"):
        color(Pattern([0], [1], (2, 3)), "acyclic")
    with pytest.raises(ArgumentError, match="SciPy sparse matrix"):
        color([[1, 0], [0, 1]])
