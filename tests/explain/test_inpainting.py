"""Hidden pixels filled in by codes that fit the rest."""

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.data import load
from chainrule.explain import probes
from chainrule.explain.probes import inpainting
from chainrule.train import fit


@pytest.mark.parametrize(
    ("hide", "share"), [("lower", 0.5), ("right", 0.5), ("middle", 0.25), ("random", 0.5)]
)
def test_as_much_is_hidden_as_is_said(hide, share):
    known = inpainting.known_pixels((8, 8, 1), hide, 0)
    assert (1 - known.mean()) == pytest.approx(share, abs=0.15 if hide == "random" else 0)


def test_errors_count_hidden_pixels_alone():
    x = np.zeros((1, 2, 2, 1))
    guess = x[:, None] + np.array([0.0, 5.0, 0.5, 0.5]).reshape(2, 2, 1)
    known = np.array([[True, True], [False, False]])[..., None]
    assert inpainting._error(guess, x, known) == 0.5


def test_a_flow_fills_in_what_is_hidden_and_keeps_what_is_known(tmp_path):
    data = load("digits")
    model = models.build("realnvp", data, width=4, depth=1, scales=1)
    run = fit(model, data, steps=3, run=tmp_path / "flow")
    found = probes.examine("inpainting", run, images=2, draws=1, steps=3)
    (sheet,) = found.pictures
    images = np.asarray(sheet.images).reshape(2, 4, 8, 8, 1)
    np.testing.assert_allclose(images[:, 2, :4], images[:, 0, :4], atol=1e-6)
    assert np.abs(images[:, 2, 4:] - images[:, 0, 4:]).max() > 0.01
    np.testing.assert_array_equal(images[:, 1, 4:], 0.5)
    assert found.numbers["hidden"] == 0.5
    train = np.asarray(data.train.x)
    shown = images[0, 0]
    nearest = np.square(train[:, :4] - shown[None, :4]).sum(axis=(1, 2, 3)).argmin()
    np.testing.assert_allclose(images[0, 3], train[nearest], atol=1e-6)
    assert jnp.isfinite(found.numbers["filled_in"])
