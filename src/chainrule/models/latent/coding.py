"""Codes of models with latent variables, by which bits come back: of one level, and of several."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Int
from chainrule.information.compression.bits_back import Known, LatentCode, Move, markov_moves
from chainrule.information.compression.cells import NormalEntries
from chainrule.information.compression.distributions import CategoricalSymbols, SymbolDistribution
from chainrule.information.compression.levels import as_entries, check_levels, distribution_of, level_shares
from chainrule.models.latent import likelihoods
from chainrule.models.latent.posteriors import DiagonalPosterior, gaussian
from chainrule.models.latent.priors import GaussianPrior, MixturePrior

if TYPE_CHECKING:
    from chainrule.models.latent.hierarchical import Hierarchical
    from chainrule.models.latent.variational import Variational


def variational_code(model: "Variational") -> LatentCode:
    """The code of a variational auto-encoder with a Gaussian posterior, to which no condition is told.

    Under a prior that is a mixture, the component of a code is a level of its own: its posterior given the code is
    exact, so that all bits spent on the choice come back.
    """
    networks, schema = model.networks, model.schema
    check_levels(model.output, schema, likelihoods.name_of(model.config, schema))
    wrong = {
        f"posterior={model.config.posterior}": not isinstance(networks.posterior, DiagonalPosterior),
        "decoder=autoregressive": networks.context is not None,
    }
    for what, is_so in wrong.items():
        if is_so:
            raise CapabilityError(
                f"{what}: entries of a code, or of an example given it, are no independent symbols",
                remedy="compress with a model of posterior=diagonal and decoder=factorised",
            )

    def distribution(move: Move, known: Known, rows: int) -> SymbolDistribution | NormalEntries:
        if move == Move("infer", 1):
            return NormalEntries(*map(np.asarray, _inferred(model, jnp.asarray(known[0]))))
        if move == Move("generate", 0):
            return distribution_of(np.asarray(_generated(model, jnp.asarray(known[1]))), schema.levels)
        if move == Move("infer", 2):
            return CategoricalSymbols(np.asarray(_components_of(model, jnp.asarray(known[1])))[:, None])
        if move == Move("generate", 2):
            return CategoricalSymbols(np.tile(np.asarray(_weights(model)), (rows, 1, 1)))
        chosen = known[2] if networks.mixture is not None else np.zeros((rows, 1), np.int32)
        return NormalEntries(*map(np.asarray, _prior_entries(model, jnp.asarray(chosen))))

    size, mixed = networks.posterior.size, networks.mixture is not None
    return LatentCode(
        schema,
        eqx.filter(model, eqx.is_array),
        (size, 1) if mixed else (size,),
        markov_moves(2 if mixed else 1),
        distribution,
        standard=not mixed and networks.prior is None,
    )


@eqx.filter_jit
def _inferred(model: "Variational", symbols: Array) -> tuple[Array, Array]:
    x = as_entries(symbols, model.schema).reshape(len(symbols), *model.schema.shape)
    found = gaussian(model.networks.posterior_parameters(x, model.networks.given(None, len(x))))
    return found.mean, jnp.exp(found.log_variance / 2)


@eqx.filter_jit
def _generated(model: "Variational", z: Array) -> Array:
    given = model.networks.given(None, len(z))
    return _shares(model, model.networks.entry_parameters(z, given))


@eqx.filter_jit
def _prior_entries(model: "Variational", chosen: Int[Array, "rows 1"]) -> tuple[Array, Array]:
    """Mean and deviation of codes before an example is seen; those of the chosen components of a mixture."""
    prior = model.networks.given(None, len(chosen)).prior
    if isinstance(prior, MixturePrior):
        found = gaussian(prior.parameters[chosen[:, 0]])
    else:
        assert isinstance(prior, GaussianPrior), "codes in space have a Gaussian prior, or a mixture"
        found = prior.gaussian
    return found.mean, jnp.exp(found.log_variance / 2)


@eqx.filter_jit
def _components_of(model: "Variational", z: Float[Array, "rows size"]) -> Float[Array, "rows components"]:
    """The probability of every component of the prior given a code."""
    return jax.nn.softmax(_mixture(model, len(z)).by_component(z), axis=0).T


@eqx.filter_jit
def _weights(model: "Variational") -> Float[Array, " components"]:
    return jax.nn.softmax(_mixture(model, 1).logits)


def _mixture(model: "Variational", rows: int) -> MixturePrior:
    prior = model.networks.given(None, rows).prior
    assert isinstance(prior, MixturePrior), "only a mixture has components"
    return prior


def hierarchical_code(model: "Hierarchical") -> LatentCode:
    """The code of a hierarchy, in the order in which its levels are inferred."""
    schema, hierarchy = model.schema, model.hierarchy
    check_levels(model.output, schema, likelihoods.name_of(model.config, schema))

    def distribution(move: Move, known: Known, rows: int) -> SymbolDistribution | NormalEntries:
        symbols = known.get(0, np.zeros((rows, schema.dimensions), np.int32))
        levels = [
            known.get(t, np.zeros((rows, size), np.float32)) for t, size in enumerate(hierarchy.sizes, 1)
        ]
        codes = jnp.asarray(np.concatenate(levels, axis=1))
        if not move.level:
            return distribution_of(np.asarray(_entries_of(model, codes)), schema.levels)
        both = _levels_of(model, jnp.asarray(symbols), codes)[0 if move.kind == "infer" else 1]
        part = hierarchy.part(move.level - 1)
        return NormalEntries(*(np.asarray(array)[:, part] for array in both))

    return LatentCode(schema, eqx.filter(model, eqx.is_array), hierarchy.sizes, hierarchy.moves, distribution)


@eqx.filter_jit
def _levels_of(
    model: "Hierarchical", symbols: Array, codes: Float[Array, "rows size"]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Mean and deviation of every entry of a code by q and by p; what a level does not know of has no say in it."""
    x = as_entries(symbols, model.schema).reshape(len(symbols), *model.schema.shape)
    path = model.hierarchy.path(model.seen(x), codes)
    posterior, prior = (
        (
            jnp.broadcast_to(one.mean, codes.shape),
            jnp.broadcast_to(jnp.exp(one.log_variance / 2), codes.shape),
        )
        for one in (path.posterior, path.prior)
    )
    return posterior, prior


@eqx.filter_jit
def _entries_of(model: "Hierarchical", codes: Float[Array, "rows size"]) -> Array:
    return _shares(model, model.hierarchy.entry_parameters(codes))


def _shares(model: "Variational | Hierarchical", parameters: Array) -> Array:
    found = level_shares(model.output, parameters)
    entries = found.reshape(len(found), model.schema.dimensions, -1)
    return entries[..., 0] if model.schema.levels == 2 else entries


__all__ = ["hierarchical_code", "variational_code"]
