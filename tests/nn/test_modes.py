"""The mode of a network in words."""

import equinox as eqx
import jax
import pytest

from chainrule import data, models, nn
from chainrule.nn.modes import mode

KEY = jax.random.key(0)


def test_layers_that_are_not_the_same_in_both_modes_are_counted() -> None:
    model = models.build("cnn", data.load("digits"), **models.entry("cnn").toy)
    assert mode(model) == "training mode: 2 BatchNorm by the statistics of each batch, 1 Dropout on"
    still = eqx.nn.inference_mode(model)
    assert mode(still) == "inference mode: 2 BatchNorm by running averages, 1 Dropout off"
    mixed = eqx.tree_at(lambda m: m.dropout, still, model.dropout)
    assert mode(mixed) == "some layers in training mode, some in inference mode: 2 BatchNorm, 1 Dropout"


@pytest.mark.parametrize("network", [nn.Linear(2, 2, key=KEY), nn.Dropout(0.0), nn.LayerNorm(3)])
def test_where_no_layer_makes_a_difference_there_is_no_mode(network: eqx.Module) -> None:
    assert mode(network) == ""


def test_a_normaliser_by_itself_is_called_with_its_running_averages() -> None:
    assert mode([nn.BatchNorm(3)]) == "inference mode: 1 BatchNorm by running averages"
