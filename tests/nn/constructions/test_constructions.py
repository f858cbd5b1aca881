"""Truth tables, polygons, approximations with a bound, tent maps and affine regions."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn import constructions as c
from chainrule.nn.constructions import approximation, boolean, polygons, regions

# ---------------------------------------------------------------------- truth tables


@pytest.mark.parametrize("n", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_every_truth_table_is_reproduced(n) -> None:
    """All 256 functions of three inputs and all 65,536 of four, through the weights themselves."""
    x = c.corners(n)
    for bits in range(2 ** (2**n)):
        outputs = 2.0 * ((bits >> np.arange(2**n)) & 1) - 1.0
        state = x
        for weight, bias in boolean.table_weights(outputs):
            state = np.where(state @ weight + bias > 0, 1.0, -1.0)
        assert (state[:, 0] == outputs).all()


def test_truth_tables_are_ordinary_networks_and_parity_takes_half_the_corners() -> None:
    x = c.corners(4)
    parity = c.truth_table(x.prod(axis=1))
    assert parity.sizes == (4, 8, 1)
    assert (parity(jnp.asarray(x))[:, 0] == x.prod(axis=1)).all()
    never = c.truth_table(-np.ones(8))
    assert (never(jnp.asarray(c.corners(3))) == -1).all()


@pytest.mark.parametrize(
    ("outputs", "message"), [([1, -1, 1], "3 outputs"), ([0, 1], "-1 or 1"), ([1], "1 outputs")]
)
def test_what_is_no_truth_table_is_refused(outputs, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        c.truth_table(outputs)


def test_exclusive_or_is_exact_while_no_affine_function_beats_one_half() -> None:
    x, y = np.array(list(itertools.product([0.0, 1.0], repeat=2))), np.array([0.0, 1.0, 1.0, 0.0])
    assert (c.xor()(jnp.asarray(x))[:, 0] == y).all()
    best = c.least_squares(x, y)
    np.testing.assert_allclose(best.layers[0].weight, 0, atol=1e-12)
    np.testing.assert_allclose(best.layers[0].bias, 0.5)
    assert float(jnp.square(best(jnp.asarray(x))[:, 0] - y).mean()) == pytest.approx(0.25)


def test_least_squares_agrees_with_descent_and_with_the_normal_equations() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(30, 4)), random.normal(size=(30, 2))
    design = np.column_stack([x, np.ones(30)])
    plain = np.linalg.lstsq(design, y, rcond=None)[0]
    best = c.least_squares(x, y)
    np.testing.assert_allclose(np.vstack([best.layers[0].weight, best.layers[0].bias]), plain, atol=1e-10)
    decayed = c.least_squares(x, y, decay=0.3).layers[0]
    w, b = jnp.asarray(decayed.weight), jnp.asarray(decayed.bias)

    def loss(w: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.square(x @ w + b[None] - y).sum(axis=1).mean() + 0.3 * jnp.square(w).sum()

    for slope in jax.grad(loss, argnums=(0, 1))(
        w, b
    ):  # a convex function is lowest where its gradient vanishes
        np.testing.assert_allclose(slope, 0, atol=1e-10)
    twice = c.least_squares(np.column_stack([x[:, :1], x[:, :1]]), y)  # the same column two times
    np.testing.assert_allclose(twice.layers[0].weight[0], twice.layers[0].weight[1], atol=1e-10)


@pytest.mark.parametrize(
    ("x", "y", "decay", "message"),
    [
        ([[1.0]], [1.0, 2.0], 0.0, "do not go together"),
        ([[np.nan]], [1.0], 0.0, "must be finite"),
        ([[1.0]], [np.inf], 0.0, "must be finite"),
        ([[1.0]], [1.0], -1.0, "not be negative"),
    ],
)
def test_what_cannot_be_fitted_is_refused(x, y, decay, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        c.least_squares(x, y, decay=decay)


# ---------------------------------------------------------------------- polygons


def test_a_triangle_sums_to_three_inside_and_to_one_or_minus_one_outside() -> None:
    triangle = c.convex([[0, 0], [4, 0], [0, 4]])
    points = jax.random.uniform(jax.random.key(0), (4000, 2), minval=-4, maxval=8)
    sums = jnp.sign(triangle.layers[0](points)).sum(axis=1)
    assert set(sums.tolist()) == {3.0, 1.0, -1.0}
    inside = (points > 0).all(axis=1) & (points.sum(axis=1) < 4)
    assert ((triangle(points)[:, 0] > 0) == inside).all()
    stepped = c.convex([[0, 0], [4, 0], [0, 4]], units="step")
    assert ((stepped(points)[:, 0] == 1) == inside).all()


def test_the_border_belongs_to_a_closed_polygon_only() -> None:
    square = [[0, 0], [1, 0], [1, 1], [0, 1]]
    corner = jnp.array([[0.0, 0.0], [0.5, 0.0], [0.5, 0.5]])
    assert c.convex(square)(corner)[:, 0].tolist() == [-1, -1, 1]
    assert c.convex(square[::-1], closed=True)(corner)[:, 0].tolist() == [1, 1, 1]
    assert c.convex(square, closed=True, units="step")(corner)[:, 0].tolist() == [1, 1, 1]


def test_a_polygon_that_is_not_convex_is_the_union_of_its_triangles() -> None:
    star = [
        [
            (1.0 if k % 2 else 0.4) * math.cos(math.pi * k / 5),
            (1.0 if k % 2 else 0.4) * math.sin(math.pi * k / 5),
        ]
        for k in range(10)
    ]
    path = pytest.importorskip("matplotlib.path").Path(star)
    points = np.random.default_rng(0).uniform(-1.1, 1.1, (5000, 2))
    for corners in (star, star[::-1]):
        network = c.polygon(corners)
        assert network.hidden_depth == 2
        assert ((np.asarray(network(jnp.asarray(points)))[:, 0] > 0) == path.contains_points(points)).all()
    cuts = np.concatenate([(t[[0, 1, 2]] + t[[1, 2, 0]]) / 2 for t in polygons.triangulate(star)])
    assert (c.polygon(star)(jnp.asarray(0.999 * cuts)) > 0).all()  # nothing falls between two triangles


def test_straight_corners_do_not_matter() -> None:
    pieces = polygons.triangulate([[0, 0], [1, 0], [2, 0], [2, 2], [0, 2]])
    area = sum(abs(np.cross(*np.append(t[1:] - t[0], [[0], [0]], axis=1))[2]) / 2 for t in pieces)
    assert area == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("build", "vertices", "message"),
    [
        (c.convex, [[0, 0], [2, 1], [0, 2], [1, 1]], "strictly convex"),
        (c.convex, [[0, 0], [1, 1], [2, 2]], "strictly convex"),
        (c.convex, [[math.cos(2.4 * math.pi * k), math.sin(2.4 * math.pi * k)] for k in range(5)] * 1, None),
        (
            c.convex,
            [[math.cos(0.8 * math.pi * k), math.sin(0.8 * math.pi * k)] for k in range(5)],
            "strictly convex",
        ),
        (c.polygon, [[0, 0], [1, 1], [1, 0], [0, 1]], "crosses side"),
        (c.polygon, [[0, 0], [1, 1], [2, 2]], "area is zero"),
        (c.polygon, [[0, 0], [1, 1]], "at least three"),
        (c.convex, [[0, 0], [1, 0], [0, np.nan]], "at least three finite"),
    ],
    ids=lambda value: "",
)
def test_what_is_no_such_polygon_is_refused(build, vertices, message) -> None:
    if message is None:
        build(vertices)
        return
    with pytest.raises(ArgumentError, match=message):
        build(vertices)
    with pytest.raises(ArgumentError, match="at least one polygon"):
        c.union([])


# ---------------------------------------------------------------------- approximation


def test_sine_with_64_pieces_stays_within_the_bound() -> None:
    network = c.compile_piecewise(c.interpolate(np.sin, (0, 2 * np.pi), 64))
    x = np.linspace(0, 2 * np.pi, 100_001)
    error = np.abs(np.asarray(network(jnp.asarray(x)[:, None]))[:, 0] - np.sin(x)).max()
    bound = (2 * np.pi / 64) ** 2 / 8
    assert error == pytest.approx(0.001203, abs=1e-6)
    assert bound == pytest.approx(0.001205, abs=1e-6)
    assert error <= bound


def test_the_network_for_an_error_keeps_it() -> None:
    x = np.linspace(-1, 2, 20_001)
    for options in ({"lipschitz": 1.0}, {"curvature": 1.0}, {"lipschitz": 1.0, "curvature": 1.0}, {}):
        found = c.approximate(jnp.sin, (-1.0, 2.0), 0.01, **options)
        error = np.abs(np.asarray(found.network(jnp.asarray(x)[:, None]))[:, 0] - np.sin(x)).max()
        assert error <= found.bound * (1 + 1e-9) <= 0.01 * (1 + 1e-9)
        assert found.kind == ("proved" if options else "estimated")
    assert c.approximate(np.abs, (-1.0, 1.0), 0.1, lipschitz=1.0).bound <= 0.1


def test_several_inputs_take_a_grid_of_cells_and_say_how_many_units_first() -> None:
    said: list[str] = []
    found = c.approximate_cells(
        lambda x: np.sin(x[0]) + x[1] / 2, [(0.0, 2.0), (0.0, 1.0)], 0.1, lipschitz=1.5, announce=said.append
    )
    assert said == [f"{22 * 11} cells, {found.units} hidden units"]
    assert found.units == approximation.cell_units([22, 11])
    assert found.network.hidden_depth == 2
    grid = np.stack(np.meshgrid(np.linspace(0, 2, 101), np.linspace(0, 1, 61)), axis=-1).reshape(-1, 2)
    error = np.abs(
        np.asarray(found.network(jnp.asarray(grid)))[:, 0] - np.sin(grid[:, 0]) - grid[:, 1] / 2
    ).max()
    assert error <= found.bound <= 0.1
    with pytest.raises(ArgumentError, match="more than max_units=100"):
        c.approximate_cells(
            lambda x: x[0], [(0.0, 1.0)] * 3, 0.01, lipschitz=1.0, max_units=100, announce=said.append
        )
    assert "hidden units" in said[-1]  # the count comes before the refusal


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eps": 0.0}, "error must be positive"),
        ({"interval": (1.0, 1.0)}, "lower one first"),
        ({"lipschitz": -1.0}, "lipschitz must be positive"),
        ({"max_units": 3, "lipschitz": 1.0}, "more than max_units=3"),
        ({"g": lambda x: 3.0 * x}, "second derivative seen is 0.0"),
        ({"g": lambda x: 1 / (x - x), "lipschitz": 1.0}, "one finite number"),
    ],
    ids=["eps", "interval", "lipschitz", "units", "straight", "infinite"],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_approximations_that_cannot_be_made_are_refused(options, message) -> None:
    words = {"g": jnp.sin, "interval": (0.0, 1.0), "eps": 0.01} | options
    with pytest.raises(ArgumentError, match=message):
        c.approximate(words.pop("g"), words.pop("interval"), words.pop("eps"), **words)


# ---------------------------------------------------------------------- depth and regions


@pytest.mark.parametrize("k", [1, 3, 6])
def test_the_tent_map_doubles_its_pieces_with_every_layer(k) -> None:
    network = c.tent(k)
    assert regions.count_on_line(network, [0.0], [1.0], (0.0, 1.0)) == 2**k
    assert network.width == 2
    x = jnp.linspace(0, 1, 2**k + 1)[:, None]
    assert network(x)[:, 0].tolist() == [0.0, 1.0] * 2 ** (k - 1) + [0.0]


def test_five_lines_in_general_position_cut_the_plane_into_sixteen() -> None:
    angles = np.array([0.1, 0.8, 1.5, 2.1, 2.8])
    layer = c.affine(np.stack([np.cos(angles), np.sin(angles)]), [0.1, -0.2, 0.3, -0.1, 0.25])
    network = c.Network([layer, c.affine(np.ones((5, 1)), [0.0])], ["relu", "identity"])
    found = regions.on_plane(network, (-20, 20, -20, 20))
    assert len(found) == regions.most_regions(5, 2) == 16
    assert len({region.pattern for region in found}) == 16
    assert sum(regions._area(region.vertices) for region in found) == pytest.approx(1600)


@pytest.mark.parametrize("sizes", [[2, 6, 1], [2, 5, 5, 2]], ids=["shallow", "deep"])
def test_on_every_region_the_network_is_the_affine_map_that_is_told(sizes) -> None:
    network = c.mlp(sizes, key=jax.random.key(3))
    biased = [
        c.affine(one.weight, 0.3 * jax.random.normal(jax.random.key(i), one.bias.shape))
        for i, one in enumerate(network.layers)
    ]
    network = c.Network(biased, network.activations)
    found = regions.on_plane(network, (-2, 2, -2, 2))
    assert sum(regions._area(region.vertices) for region in found) == pytest.approx(16)
    inside = [0.9 * region.vertices + 0.1 * region.vertices.mean(axis=0) for region in found]
    outputs = np.split(network(jnp.asarray(np.concatenate(inside))), np.cumsum([len(x) for x in inside])[:-1])
    for region, x, output in zip(found, inside, outputs, strict=True):
        np.testing.assert_allclose(output, x @ region.weight + region.bias, atol=1e-9)
        assert (regions.patterns(network, region.vertices.mean(axis=0)[None])[0] == region.pattern).all()
    points = np.random.default_rng(0).uniform(-2, 2, (20_000, 2))
    assert 0.5 * len(found) < regions.count_sampled(network, points) <= len(found)


def test_a_plane_through_more_inputs_is_cut_like_the_plane_itself() -> None:
    network = c.mlp([3, 6, 1], key=jax.random.key(0))
    origin, axes = [0.1, -0.2, 0.3], [[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]
    found = regions.on_plane(network, (-1, 1, -1, 1), origin=origin, axes=axes)
    for region in found:
        s = region.vertices.mean(axis=0)
        x = jnp.asarray(np.asarray(origin) + s @ np.asarray(axes))
        np.testing.assert_allclose(network(x), s @ region.weight + region.bias, atol=1e-9)


def test_bounds_on_the_number_of_regions() -> None:
    assert regions.reachable_regions(4, 2, 3) == 176
    assert regions.most_regions(3, 5) == 8
    with pytest.raises(ArgumentError, match="width >= inputs"):
        regions.reachable_regions(1, 2, 3)


def test_far_out_the_network_is_affine_and_sure_of_itself() -> None:
    network = c.mlp([2, 8, 8, 3], key=jax.random.key(5))
    direction = np.array([1.0, -0.5])
    far = regions.far_field(network, direction)
    for t in (far.settled + 1, far.settled + 1000):
        outputs = network(jnp.asarray(t * direction))
        np.testing.assert_allclose(outputs, far.slope * t + far.intercept, rtol=1e-8)
    assert far.confidence == 1.0
    assert float(jax.nn.softmax(network(jnp.asarray(1e4 * direction))).max()) == pytest.approx(1.0)
    zero = c.Network([c.affine(np.zeros((2, 3)), [0.0, 1.0, 2.0])], ["identity"])
    assert regions.far_field(zero, direction).confidence == pytest.approx(
        float(jax.nn.softmax(jnp.arange(3.0)).max())
    )


def test_planes_and_lines_that_do_not_fit_are_refused() -> None:
    network = c.mlp([3, 2, 1], key=jax.random.key(0))
    with pytest.raises(ArgumentError, match="give a point and two directions"):
        regions.on_plane(network, (-1, 1, -1, 1))
    with pytest.raises(ArgumentError, match="left < right"):
        regions.on_plane(network, (1, -1, -1, 1))
    with pytest.raises(ArgumentError, match="must have the 3 inputs"):
        regions.along(network, [0.0], [1.0])
    with pytest.raises(ArgumentError, match="not piecewise linear"):
        regions.on_plane(c.mlp([2, 2, 1], "tanh", key=jax.random.key(0)), (-1, 1, -1, 1))
    with pytest.raises(ArgumentError, match="max_regions=3"):
        regions.on_plane(c.mlp([2, 9, 1], key=jax.random.key(0)), (-1, 1, -1, 1), max_regions=3)
