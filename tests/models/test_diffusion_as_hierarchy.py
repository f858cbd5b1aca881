"""The Markovian hierarchy with fixed noise against the variational diffusion model: the same bound, term by term."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core import tree
from chainrule.data import Batch, Schema
from chainrule.models.diffusion import bounds
from chainrule.models.diffusion.vdm import VDM
from chainrule.models.latent.markovian_hvae import MarkovianHVAE
from chainrule.models.latent.markovian_hvae.diffusion import DiffusionChain

KEY = jax.random.key(0)
STEPS = 6
SCHEMAS = {"levels": Schema("image", (3, 3, 1), levels=17), "numbers": Schema("points", (4,))}


def wide(model: eqx.Module) -> eqx.Module:
    """The same in double precision, with other numbers in every array."""
    noise = np.random.default_rng(0)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    moved = jax.tree.map(lambda a: jnp.asarray(a + 0.1 * noise.normal(size=a.shape), jnp.float64), arrays)
    found: eqx.Module = eqx.combine(moved, rest)
    return found


@pytest.mark.parametrize("kind", list(SCHEMAS))
def test_every_term_of_the_bound_is_that_of_variational_diffusion(kind: str) -> None:
    schema = SCHEMAS[kind]
    with jax.enable_x64(True):
        small = {"width": 8, "depth": 1}
        vdm = wide(models.build("vdm", schema, denoiser="mlp", conditional=False, timesteps=STEPS, **small))
        assert isinstance(vdm, VDM)
        levels = vdm.noise.level(jnp.arange(STEPS + 1) / STEPS)
        lam = np.asarray(levels.lam).tolist()
        fixed = {"posterior": "diffusion", "timesteps": STEPS + 1, "lam_max": lam[0]}
        own = models.build("markovian-hvae", schema, **fixed, **small)
        assert isinstance(own, MarkovianHVAE)
        chain = DiffusionChain(own.config, tuple(lam), schema, KEY)
        chain = eqx.tree_at(lambda c: c.denoiser, chain, vdm.denoiser.body)  # type: ignore[union-attr]
        own = eqx.tree_at(lambda m: m.hierarchy, own, chain)
        draw = np.random.default_rng(0)
        x = jnp.asarray(
            draw.integers(0, 17, (5, *schema.shape)) / 16 if schema.levels else draw.normal(size=(5, 4))
        )

        @eqx.filter_jit
        def hierarchical(own: MarkovianHVAE, x: jax.Array) -> tuple[jax.Array, ...]:
            path = own.inferred(x, KEY)
            cost = own.nats(own.entry_log_likelihood(x, path.parameters))
            return path.codes, chain.by_level(own.shares(path)), cost

        @eqx.filter_jit
        def diffused(vdm: VDM, x: jax.Array, eps: jax.Array, z: jax.Array) -> tuple[jax.Array, ...]:
            x0, process, first = vdm.to_network_units(x), vdm.noise.process, levels.at(0)
            prior = bounds.prior_term(x0, levels.at(-1), process)
            steps = bounds.step_terms(vdm.denoiser, x0, eps[1:], levels)
            if not schema.levels:  # of numbers on average over the lowest level
                excess = 0.5 * (jnp.square(eps[0]) - 1).reshape(len(x), -1).sum(axis=1)
                return prior, steps, bounds.gaussian_reconstruction(x0, first) + excess
            index = jnp.rint(x * 16).astype(jnp.int32)
            return prior, steps, bounds.level_reconstruction(z, index, jnp.linspace(-1, 1, 17), first)

        codes, rates, cost = hierarchical(own, x)
        z = jnp.moveaxis(codes.reshape(5, STEPS + 1, *schema.shape), 1, 0)
        shape = (-1, *(1,) * x.ndim)
        x0 = vdm.to_network_units(x)[None]
        eps = (z - levels.a.reshape(shape) * x0) / levels.s.reshape(shape)
        prior, steps, reconstruction = diffused(vdm, x, eps, z[0])
        np.testing.assert_allclose(rates[:, -1], prior, rtol=1e-9)
        np.testing.assert_allclose(rates[:, :-1], steps.T, rtol=1e-7)
        np.testing.assert_allclose(cost, reconstruction, rtol=1e-6)
        rate, _ = eqx.filter_jit(own.rate_and_distortion)(Batch(x), KEY)
        assert rate.shape == (5,)


def test_the_denoiser_of_a_hierarchy_is_the_network_of_a_diffusion_model() -> None:
    """The same arrays by the same names, so that one is the other's with nothing changed."""
    schema = SCHEMAS["numbers"]
    small = {"width": 8, "depth": 2}
    vdm = models.build("vdm", schema, denoiser="mlp", conditional=False, timesteps=3, **small)
    own = models.build("markovian-hvae", schema, posterior="diffusion", timesteps=4, **small)
    sizes = [tree.size(model) for model in (vdm.denoiser.body, own.hierarchy.denoiser)]  # type: ignore[attr-defined]
    assert sizes[0] == sizes[1]
