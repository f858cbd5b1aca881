"""Plain networks: states by name, layouts, merging, and exact piecewise-linear functions in both directions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn import constructions as c
from chainrule.nn.constructions import PiecewiseLinear


@pytest.fixture
def network() -> c.Network:
    return c.mlp([3, 7, 5, 2], key=jax.random.key(1))


def test_depth_hidden_depth_and_width_are_told(network) -> None:
    assert (network.depth, network.hidden_depth, network.width, network.units) == (3, 2, 7, 12)
    assert str(network) == "network 3-7-5-2: depth 3 (hidden depth 2), width 7, relu, relu, identity"


def test_states_follow_the_layers_and_end_with_the_loss(network) -> None:
    x = jax.random.normal(jax.random.key(0), (4, 3))
    found = c.states(network, x, jnp.array([0, 1, 1, 0]))
    assert list(found) == ["S0", "S1", "S2", "S3", "S4", "S5", "loss"]
    np.testing.assert_allclose(found["S2"], jnp.maximum(found["S1"], 0))
    np.testing.assert_allclose(
        found["S3"], found["S2"] @ network.layers[1].weight + network.layers[1].bias[None]
    )
    np.testing.assert_allclose(found["S5"], network(x))
    p = jax.nn.log_softmax(network(x))
    np.testing.assert_allclose(found["loss"], -(p[0, 0] + p[1, 1] + p[2, 1] + p[3, 0]) / 4)
    values = c.states(network, x, jnp.zeros((4, 2)))
    np.testing.assert_allclose(values["loss"], jnp.square(network(x)).mean())


def test_columns_are_the_transpose_of_rows_and_come_back(network) -> None:
    x = jax.random.normal(jax.random.key(0), (4, 3))
    rows, columns = c.states(network, x), c.states(network, x, layout="column")
    assert all((columns[name] == rows[name].T).all() for name in rows)
    weights = c.to_columns(network)
    np.testing.assert_allclose(columns["S1"], weights[0][0] @ x.T + weights[0][1][:, None])
    again = c.from_columns(weights, network.activations)
    assert (again(x) == network(x)).all()
    with pytest.raises(ArgumentError, match="layout must be"):
        c.states(network, x, layout="rows")


def test_affine_layers_without_a_nonlinearity_between_them_are_merged() -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    layers = [
        c.mlp([a, b], key=k).layers[0] for a, b, k in zip([2, 5, 6, 4], [5, 6, 4, 3], keys, strict=True)
    ]
    deep = c.Network(layers, ["identity", "relu", "identity", "identity"])
    flat = c.collapse(deep)
    assert flat.sizes == (2, 6, 3)
    x = jax.random.normal(jax.random.key(3), (10, 2))
    np.testing.assert_allclose(flat(x), deep(x), rtol=1e-10)


def test_scaling_a_unit_in_and_out_changes_nothing(network) -> None:
    x = jax.random.normal(jax.random.key(2), (20, 3))
    factor = jnp.array([0.1, 1.0, 3.0, 7.0, 0.5, 2.0, 10.0])
    first, second = network.layers[:2]
    scaled = c.Network(
        [
            c.affine(first.weight * factor[None, :], first.bias * factor),
            c.affine(second.weight / factor[:, None], second.bias),
            network.layers[2],
        ],
        network.activations,
    )
    np.testing.assert_allclose(scaled(x), network(x), rtol=1e-6)


def test_networks_that_do_not_fit_together_are_refused(network) -> None:
    with pytest.raises(ArgumentError, match="7 outputs is followed by one with 5 inputs"):
        c.Network([network.layers[0], network.layers[2]], ["relu", "identity"])
    with pytest.raises(ArgumentError, match="one for each layer"):
        c.Network(network.layers, ["relu"])
    with pytest.raises(ArgumentError, match="unknown activation"):
        c.Network(network.layers, ["relu", "rleu", "identity"])
    with pytest.raises(ArgumentError, match="does not go with a bias"):
        c.affine([[1.0]], [1.0, 2.0])
    with pytest.raises(ArgumentError, match="sizes"):
        c.mlp([3], key=jax.random.key(0))


# ---------------------------------------------------------------------- one input


def test_a_piecewise_linear_function_becomes_a_network_of_one_hidden_layer() -> None:
    network = c.compile_piecewise(PiecewiseLinear([-1, 0, 2], [-1, 2, -0.5, 3], 1.0))
    assert network.sizes == (1, 5, 1)  # p + 3 units for knots t_0 ... t_p
    x = jnp.array([[-3.0], [-1.0], [0.0], [1.0], [5.0]])
    assert network(x)[:, 0].tolist() == [3.0, 1.0, 3.0, 2.5, 11.0]


@pytest.mark.parametrize(
    "sizes", [[1, 12, 1], [1, 6, 5, 1], [1, 5, 4, 6, 3, 1]], ids=lambda s: "-".join(map(str, s))
)
@pytest.mark.parametrize("activation", ["relu", "leaky-relu"])
def test_a_random_network_survives_the_way_to_its_knots_and_back(sizes, activation) -> None:
    x = jnp.linspace(-6, 6, 2001)[:, None]
    for seed in range(2):
        keys = jax.random.split(jax.random.key(seed), len(sizes))
        network = c.mlp(sizes, activation, key=keys[0])
        biased = [
            c.affine(one.weight, jax.random.normal(k, one.bias.shape))
            for one, k in zip(network.layers, keys, strict=False)
        ]
        network = c.Network(biased, network.activations)
        function = c.extract(network)
        again = c.compile_piecewise(function)
        assert again.units <= len(function.knots) + 2
        np.testing.assert_allclose(again(x), network(x), atol=1e-5)
        np.testing.assert_allclose(function(x), network(x), atol=1e-9)


def test_pieces_of_several_outputs_and_of_units_that_cross_together() -> None:
    twins = c.Network(
        [c.affine([[1.0, 1.0, 2.0]], [-1.0, -1.0, -2.0]), c.affine(np.eye(3), np.zeros(3))],
        ["relu", "identity"],
    )
    found = c.pieces(twins)
    assert found.breaks.tolist() == [1.0]
    assert found.slopes.tolist() == [[0, 0, 0], [1, 1, 2]]
    cancelled = c.Network(
        [c.affine([[1.0, 1.0]], [0.0, 0.0]), c.affine([[1.0], [-1.0]], [4.0])], ["relu", "identity"]
    )
    assert c.extract(cancelled).knots.size == 0
    assert c.extract(cancelled)(np.array([3.0])).tolist() == [4.0]
    assert len(c.pieces(cancelled, merge=False)) == 2


@pytest.mark.parametrize(
    ("knots", "slopes", "value", "message"),
    [
        ([1, 0], [0, 1, 2], 0, "they must increase"),
        ([0, 0], [0, 1, 2], 0, "they must increase"),
        ([0, np.inf], [0, 1, 2], 0, "must be finite"),
        ([0], [0, np.nan], 0, "must be finite"),
        ([0], [0, 1], np.nan, "must be finite"),
        ([0, 1], [0, 1], 0, "2 knots need 3 slopes"),
        ([[0, 1], [1, 2]], [0, 1, 2], 0, "two hidden layers or more"),
    ],
)
def test_functions_that_make_no_sense_are_refused(knots, slopes, value, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        PiecewiseLinear(knots, slopes, value)


def test_networks_that_have_no_pieces_are_refused(network) -> None:
    with pytest.raises(ArgumentError, match="3 inputs, not one"):
        c.pieces(network)
    with pytest.raises(ArgumentError, match="tanh is not piecewise linear"):
        c.pieces(c.mlp([1, 2, 1], "tanh", key=jax.random.key(0)))
    with pytest.raises(ArgumentError, match="2 outputs"):
        c.extract(c.mlp([1, 2, 2], key=jax.random.key(0)))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_the_largest_of_affine_functions_takes_logarithmically_many_layers(count) -> None:
    keys = jax.random.split(jax.random.key(count), 3)
    weights, biases = jax.random.normal(keys[0], (count, 3)), jax.random.normal(keys[1], (count,))
    network = c.maximum(weights, biases)
    assert network.hidden_depth == int(np.ceil(np.log2(count)))
    x = 3 * jax.random.normal(keys[2], (50, 3))
    np.testing.assert_allclose(network(x)[:, 0], (x @ weights.T + biases[None]).max(axis=1), atol=1e-12)


def test_the_graph_layer_averages_over_neighbours() -> None:
    layer = c.GraphLayer(2, 3, key=jax.random.key(0), activation="identity")
    h = jax.random.normal(jax.random.key(1), (3, 2))
    path = jnp.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    mixed = np.array([[1 / 2, 1 / 6**0.5, 0], [1 / 6**0.5, 1 / 3, 1 / 6**0.5], [0, 1 / 6**0.5, 1 / 2]])
    np.testing.assert_allclose(layer(h, path), mixed @ h @ layer.linear.weight, rtol=1e-10)
    order = jnp.array([2, 0, 1])
    np.testing.assert_allclose(layer(h[order], path[order][:, order]), layer(h, path)[order], rtol=1e-10)
    with pytest.raises(ArgumentError, match="3 nodes, but an adjacency of 2"):
        layer(h, jnp.zeros((2, 2)))
