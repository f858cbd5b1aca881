"""PixelCNN: what a pixel sees, with and without colours."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Schema
from chainrule.models.autoregressive.vectors import VectorModel


def seen(model: VectorModel) -> np.ndarray:
    """Whether each distribution (row) depends on each entry (column)."""
    x = jnp.asarray(np.random.default_rng(0).random((4, model.schema.dimensions)))
    slopes = jax.vmap(jax.jacrev(lambda x: model.members[0](x[None])[0].sum(axis=-1)))
    return np.abs(np.asarray(eqx.filter_jit(slopes)(x))).max(axis=0) > 0


@pytest.mark.parametrize("shape", [(5, 5, 1), (3, 4, 3)])
def test_every_entry_sees_all_that_come_before_it_and_no_other(shape: tuple[int, int, int]) -> None:
    schema = Schema("image", shape, levels=4)
    model = cr.models.build("pixel-cnn", schema, width=12, blocks=3, first_kernel=5)
    assert isinstance(model, VectorModel)
    entries = schema.dimensions
    np.testing.assert_array_equal(seen(model), np.tri(entries, entries, -1, bool))


def test_what_it_cannot_be_built_for_is_refused() -> None:
    with pytest.raises(CapabilityError, match="needs pixels with levels"):
        cr.models.build("pixel-cnn", Schema("image", (4, 4, 1)))
    colours = Schema("image", (4, 4, 3), levels=256)
    with pytest.raises(ArgumentError, match=r"(?s)width=32: 3 channels share.*use width=33"):
        cr.models.build("pixel-cnn", colours, width=32)
    with pytest.raises(ArgumentError, match="kernel=4: a kernel has a middle"):
        cr.models.build("pixel-cnn", colours, width=33, kernel=4)
