"""Settings that nobody gave follow the data."""

from typing import Any

import equinox as eqx
import pytest

from chainrule import data, models
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.pixel_cnn.model import PixelCNNConfig
from chainrule.models.autoregressive.pixel_cnn.model import suited as suited_pixels
from chainrule.models.diffusion.denoisers.settings import FEW, suited
from chainrule.models.diffusion.diffusion import DiffusionConfig

PHOTOS = Schema("image", (32, 32, 3))


def test_a_few_pictures_get_a_small_denoiser() -> None:
    assert suited(DiffusionConfig(), PHOTOS, 36) == {"width": 32, "depth": 1}
    assert suited(DiffusionConfig(), PHOTOS, FEW) == {}
    assert suited(DiffusionConfig(), PHOTOS, None) == {}
    assert suited(DiffusionConfig(denoiser="dit"), PHOTOS, 36) == {}
    assert suited(DiffusionConfig(), Schema("points", (2,)), 36) == {}


@pytest.mark.parametrize("name", ["alexnet", "vgg"])
def test_wide_dense_layers_are_for_many_images(name: str) -> None:
    found = models.entry(name)
    assert found.suited is not None
    photos = Schema("image", (32, 32, 3), target="class", classes=("a", "b"))
    assert found.suited(found.config(), photos, 1_437) == {"scale": 0.25}
    assert found.suited(found.config(), photos, 1_281_167) == found.suited(found.config(), photos, None) == {}
    digits = data.load("digits")
    small: Any = eqx.filter_eval_shape(lambda: models.build(name, digits))
    assert small.config.scale == 0.25
    assert small.head.layers[0].weight.shape[1] == 1024
    given: Any = eqx.filter_eval_shape(lambda: models.build(name, digits, scale=0.5))
    assert given.config.scale == 0.5


def test_a_setting_that_is_given_stays() -> None:
    model = models.build("pixel-cnn", Schema("image", (4, 4, 2), levels=2), width=6, blocks=1)
    assert model.config.width == 6  # type: ignore[attr-defined]


def test_the_default_width_of_a_pixel_cnn_is_divided_by_any_number_of_channels() -> None:
    widths = [suited_pixels(PixelCNNConfig(), Schema("image", (8, 8, n)), 10)["width"] for n in (1, 2, 3, 4)]
    assert widths == [32, 32, 33, 32]
