"""Codes that are maps: which number of a code belongs to which cell, and which sizes are refused."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema

KEY = jax.random.key(0)
IMAGES = Schema("image", (8, 6, 1), target="class", classes=("a", "b"), levels=17)
MAPS: dict[str, Any] = {"body": "grid", "channels": (4, 4), "latent": 24}
X = np.random.default_rng(0).integers(0, 17, (3, 8, 6, 1)).astype(np.float32) / 16


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def test_a_code_is_its_map_cell_by_cell_and_centres_come_before_spreads() -> None:
    model = models.build("vae", IMAGES, **MAPS)
    assert model.code_map == (4, 3, 2)

    @eqx.filter_jit
    def both(model: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        networks, x = model.networks, jnp.asarray(X)
        cells = networks.encoder.network(2 * x - 1)
        parameters = networks.posterior_parameters(x, networks.given(None, len(x)))
        return cells, parameters, model.encode(x)

    cells, parameters, code = map(np.asarray, both(model))
    assert cells.shape == (3, 4, 3, 4)
    np.testing.assert_allclose(parameters[:, :24].reshape(3, 4, 3, 2), cells[..., :2], rtol=1e-5)
    np.testing.assert_allclose(parameters[:, 24:].reshape(3, 4, 3, 2), cells[..., 2:], rtol=1e-5)
    np.testing.assert_allclose(code, parameters[:, :24], rtol=1e-5)


@pytest.mark.parametrize("name", ["vae", "autoencoder"])
def test_maps_are_learned_through_and_decoded_to_images(name: str) -> None:
    model = models.build(name, IMAGES, **MAPS)

    @eqx.filter_jit
    def slope(model: Any) -> tuple[Any, jax.Array]:
        batch = Batch(jnp.asarray(X), jnp.zeros(3, int))
        found = eqx.filter_grad(lambda model: model.loss(batch, KEY)[0])(model)
        return found, model.decode(model.encode(batch.x))

    found, rebuilt = slope(model)
    assert rebuilt.shape == X.shape
    holder = found.networks if name == "vae" else found
    for body in (holder.encoder, holder.decoder):
        assert np.any(body.network.entry.weight)
        assert np.any(body.network.exit.weight)
    assert models.build(name, IMAGES, **{**MAPS, "body": "conv"}).code_map is None


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("vae", {"latent": 20}, r"latent=20: .* 4 x 3 cells[^\n]*\n.*latent=24"),
        ("vae", {"posterior": "full"}, r"a spread of its own[^\n]*\n.*posterior=diagonal"),
        ("cvae", {}, r"no place in a map\n.*body=conv"),
        ("autoencoder", {"normalization": "batch"}, "body=grid normalises groups"),
    ],
)
def test_what_is_no_map_is_refused_with_what_would_be(name: str, settings: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        models.build(name, IMAGES, **{**MAPS, **settings})


def test_points_have_no_cells() -> None:
    with pytest.raises(ArgumentError, match="no rows and columns of pixels"):
        models.build("vae", Schema("points", (2,)), **MAPS)
