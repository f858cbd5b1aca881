"""RealNVP for images: its scales and couplings, and codes that lead back."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import CapabilityError
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.realnvp.model import RealNVPConfig
from chainrule.models.flow.realnvp.model import build as realnvp

KEY = jax.random.key(0)


def build(shape: tuple[int, ...] = (8, 8, 1), **settings: Any) -> FlowModel:
    schema = Schema("image", shape, "class", classes=("a", "b"), levels=16)
    return realnvp(RealNVPConfig(**{"width": 4, "depth": 1, "scales": 2, **settings}), schema, KEY)


def shaken(model: FlowModel) -> FlowModel:
    """With parameters as after some training."""
    draw = np.random.default_rng(0)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    moved = jax.tree.map(lambda leaf: leaf + 0.1 * draw.normal(size=leaf.shape).astype(np.float32), arrays)
    return eqx.combine(moved, rest)


def test_every_scale_has_three_couplings_of_each_kind_and_the_last_four_of_a_checkerboard() -> None:
    flow = build(logit_margin=0.0).bijection
    first, second, last = flow.levels
    assert [level.before.depth for level in (first, second, last)] == [3, 3, 4]
    assert [level.after.depth for level in (first, second)] == [3, 3]
    assert last.after is None
    assert flow.code_shapes == ((4, 4, 2), (2, 2, 4), (2, 2, 4))
    boards = np.asarray(first.before.layers.layers[0].mask)
    np.testing.assert_array_equal(boards[0], ~boards[1])  # couplings take turns
    np.testing.assert_array_equal(boards[0], boards[2])


def test_on_a_scale_of_one_pixel_half_of_the_channels_are_moved_by_the_others() -> None:
    flow = build(scales=3, logit_margin=0.0).bijection
    masks = np.asarray(flow.levels[-1].before.layers.layers[0].mask)
    assert masks.shape == (4, 1, 1, 8)
    assert masks.sum(axis=(1, 2, 3)).tolist() == [4, 4, 4, 4]
    np.testing.assert_array_equal(masks[0], ~masks[1])


@pytest.mark.parametrize("form", ["affine", "additive"])
def test_codes_lead_back_and_volumes_are_those_of_the_jacobian(form: str) -> None:
    model = shaken(build((4, 4, 1), scales=1, form=form, logit_margin=0.05, conditional=True))
    x = jnp.asarray(np.random.default_rng(1).integers(0, 16, (2, 4, 4, 1)) / 15, jnp.float32)

    @eqx.filter_jit
    def both(model: FlowModel, x: jax.Array) -> tuple[jax.Array, ...]:
        given = jnp.ones((2, 32))
        z, volume = model.bijection.inverse(x, given)
        jacobians = jax.vmap(
            jax.jacfwd(lambda row: model.bijection.inverse(row.reshape(1, 4, 4, 1), given[:1]).value.ravel())
        )(x.reshape(2, 16))
        return model.bijection.forward(z, given).value, volume, jnp.linalg.slogdet(jacobians).logabsdet

    back, volume, expected = both(model, x)
    np.testing.assert_allclose(back, x, atol=1e-4)
    np.testing.assert_allclose(volume, expected, rtol=1e-3)


def test_images_that_cannot_be_halved_are_refused_with_sizes_that_can() -> None:
    with pytest.raises(
        CapabilityError, match=r"realnvp halves images 2 times; 6 x 6 pixels are no multiples of 4"
    ):
        build((6, 6, 1))
