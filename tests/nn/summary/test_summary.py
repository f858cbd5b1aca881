"""Summaries of networks: published figures, XLA's own count, and receptive fields against the zeros of a Jacobian."""

import functools
import json
from xml.etree import ElementTree

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import data, models, nn
from chainrule.core.errors import ArgumentError
from chainrule.models.protocol import parameter_count
from chainrule.nn.summary import summarize

KEY = jax.random.key(0)


def vgg_16() -> list:
    """The convolutions and pools of VGG-16, and its dense layers, as shapes."""
    layers: list = []
    channels = 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers.append(nn.Conv(2, channels, width, 3, padding=1, key=KEY))
            channels = width
        layers.append(functools.partial(nn.max_pool, size=2))
    layers.append(jnp.ravel)
    layers.extend(nn.Linear(a, b, key=KEY) for a, b in ((25088, 4096), (4096, 4096), (4096, 1000)))
    return layers


def test_the_published_figures_of_vgg_16_come_out() -> None:
    found = summarize(eqx.filter_eval_shape(vgg_16), (224, 224, 3))
    assert found.parameters == 138_357_544
    assert found.multiply_adds == 15_470_264_320
    pools = [row for row in found.layers if row.kind == "max pool"]
    assert [row.receptive_field for row in pools] == [(n, n) for n in (6, 16, 44, 100, 212)]
    assert pools[-1].shape == (7, 7, 512)


def test_multiply_adds_are_half_the_operations_that_xla_counts() -> None:
    one, two, three = jax.random.split(KEY, 3)
    network = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(3, 8, 5, stride=2, use_bias=False, key=one),
            eqx.nn.Conv2d(8, 4, 3, groups=4, use_bias=False, key=two),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(4 * 12 * 12, 10, use_bias=False, key=three),
        ]
    )
    x = jax.ShapeDtypeStruct((3, 31, 31), jnp.float32)
    found = summarize(network, x, space=(1, 2))
    analysis = jax.jit(lambda x: network(x)).lower(x).compile().cost_analysis()
    assert 2 * found.multiply_adds == analysis["flops"]
    assert [row.layer for row in found.layers] == ["layers.0", "layers.1", "layers.3"]
    assert [row.receptive_field for row in found.layers] == [(5, 5), (9, 9), (31, 31)]


def seen(network, shape: tuple[int, int]) -> int:
    """How many entries of a signal an output in the middle sees: those with a derivative that is not zero."""
    slopes = np.asarray(jax.jit(jax.jacrev(lambda x: network(x).sum(axis=-1)))(jnp.ones(shape)))
    there = np.flatnonzero(np.abs(slopes[len(slopes) // 2]).sum(axis=-1))
    return int(there[-1] - there[0] + 1)


def conv(inputs: int, outputs: int, kernel: int, **options) -> nn.Conv:
    layer = nn.Conv(1, inputs, outputs, kernel, key=KEY, **options)
    return eqx.tree_at(lambda c: c.weight, layer, jnp.abs(layer.weight) + 0.1)


pool = functools.partial(functools.partial, nn.average_pool, dimensions=1)


@pytest.mark.parametrize(
    "layers",
    [
        [conv(2, 3, 3), conv(3, 2, 5, dilation=2)],
        [
            conv(2, 3, 4, stride=2, padding=(1,)),
            functools.partial(nn.average_pool, size=2, dimensions=1),
            conv(3, 1, 3),
        ],
        [
            functools.partial(nn.average_pool, size=3, stride=2, padding=1, dimensions=1),
            conv(2, 2, 1, stride=3),
            conv(2, 1, 2),
        ],
        [lambda x: x[1:-3:2], conv(2, 1, 3), lambda x: jnp.flip(x, 0)],
        [lambda x: jnp.pad(x, ((2, 1), (0, 0))), conv(2, 1, 3, padding="valid"), lambda x: x[2:] + x[:-2]],
        [lambda x: x.reshape(16, 4, 2).sum(axis=1), conv(2, 1, 3)],
        [lambda x: x.reshape(16, 8).reshape(64, 2).reshape(8, 8, 2).mean(axis=(1,))],
    ],
    ids=["dilation", "pools", "strides", "slices", "sums", "reshape and sum", "reshapes"],
)
def test_receptive_fields_are_where_derivatives_are_not_zero(layers) -> None:
    def network(x):
        for layer in layers:
            x = layer(x)
        return x

    # One more convolution, so that whatever the network ends in has a row.
    outputs = jax.eval_shape(network, jax.ShapeDtypeStruct((64, 2), jnp.float32)).shape[-1]
    found = summarize([network, conv(outputs, 1, 1)], (64, 2))
    assert found.layers[-1].receptive_field == (seen(network, (64, 2)),)


def test_attention_sees_everything_and_patches_see_themselves() -> None:
    images = data.load("digits")
    found = models.summary(models.build("vit", images, **models.entry("vit").toy))
    rows = {row.layer: row for row in found.layers}
    side = models.build("vit", images, **models.entry("vit").toy).patch
    assert rows["patches"].receptive_field == (side, side)
    assert found.receptive_field == (None, None)
    assert "all" in str(found)


def test_statistics_of_normalisers_are_no_part_of_a_receptive_field() -> None:
    network = [nn.Conv(2, 1, 4, 3, key=KEY), nn.GroupNorm(4), nn.Conv(2, 4, 2, 3, key=KEY)]
    assert summarize(network, (9, 9, 1)).receptive_field == (5, 5)


def test_layers_that_are_not_reached_are_listed_as_such_and_running_averages_are_no_parameters() -> None:
    class Two(eqx.Module):
        used: nn.Linear
        norm: nn.BatchNorm
        idle: nn.Linear

        def __call__(self, x):
            return self.norm(self.used(x))

    found = summarize(Two(nn.Linear(3, 4, key=KEY), nn.BatchNorm(4), nn.Linear(7, 1, key=KEY)), (5, 3))
    assert [(r.layer, r.shape, r.parameters) for r in found.layers] == [
        ("used", (5, 4), 16),
        ("norm", (5, 4), 8),
        ("idle", (), 8),
    ]
    assert found.parameters == 32
    assert "not reached" in str(found)


def test_loops_count_as_often_as_they_run() -> None:
    found = summarize(nn.RNN(3, 4, key=KEY), (2, 5, 3), call=lambda layer, x: layer(x)[0])
    assert found.multiply_adds == 2 * 5 * (3 * 4 + 4 * 4)


def test_a_summary_is_a_table_for_people_notebooks_and_machines() -> None:
    found = summarize([nn.Linear(3, 2, key=KEY)], (5, 3), name="<b>")
    assert str(found).splitlines()[0] == "<b>   input 5 × 3"
    assert json.loads(json.dumps(found.to_json()))["layers"][0]["multiply_adds"] == 30
    page = ElementTree.fromstring(f"<div>{found._repr_html_()}</div>")
    assert [cell.text or "" for cell in page.iter("td")] == ["0", "Linear", "5 × 2", "8", "30", ""]


def test_what_goes_in_has_to_be_known() -> None:
    with pytest.raises(ArgumentError, match=r"cr.summary\(network, \(28, 28, 1\)\)"):
        models.summary(nn.Linear(3, 2, key=KEY))
    made = models.build("ar", data.load("cycles"), **models.entry("ar").toy)
    with pytest.raises(ArgumentError, match=r"give them: cr.summary\(model, data\)"):
        models.summary(made)
    with pytest.raises(ArgumentError, match="what goes into the network is missing"):
        summarize([nn.Linear(3, 2, key=KEY)])
    assert models.summary(made, data.load("cycles")).parameters == 4


def test_the_table_of_convolutions_knows_pooling_and_whole_networks() -> None:
    network = eqx.nn.Sequential(
        [
            nn.Conv(2, 1, 4, 3, stride=2, padding=1, key=KEY),
            eqx.nn.Lambda(lambda x: nn.max_pool(x, 2)),
            nn.Conv(2, 4, 4, 5, dilation=2, key=KEY),
        ]
    )
    for given in (network.layers, lambda x: network.layers[2](network.layers[1](network.layers[0](x)))):
        table = nn.conv_table(given, (28, 28, 1))
        assert [row.receptive_field for row in table if row.kind == "max pool"] == [(5, 5)]
    assert [row.kind for row in nn.conv_table(network.layers, (28, 28, 1))] == ["Conv", "max pool", "Conv"]
    model = models.build("cnn", data.load("digits"), **models.entry("cnn").toy)
    table = nn.conv_table(model, (8, 8, 1))
    assert [row.kernel for row in table if row.kernel] == [(4, 1, 3, 3), (8, 4, 3, 3)]
    assert str(table).endswith("inference mode: 2 BatchNorm by running averages, 1 Dropout off")
    with pytest.raises(ArgumentError, match="cannot be called with an array"):
        nn.conv_table(models.build("made", data.load("digits", binarize="threshold"), width=4), (64,))


@pytest.mark.parametrize(("name", "settings"), [("resnet", {"width": 4, "depth": 8}), ("mlp", {"width": 4})])
def test_a_run_counts_the_parameters_that_a_summary_counts(name: str, settings: dict[str, int]) -> None:
    model = models.build(name, data.load("digits"), **settings)
    assert parameter_count(model) == cr.summary(model).parameters
