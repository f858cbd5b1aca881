"""Mixture of Gaussians by EM."""

from chainrule.models.latent.mixture.choice import chosen
from chainrule.models.latent.mixture.model import GaussianMixtureModel, MixtureConfig
from chainrule.models.protocol import Entry

entry = Entry(
    name="mixture",
    summary="Mixture of Gaussians by EM: exact likelihoods, clusters, and their number chosen on validation.",
    config=MixtureConfig,
    build=GaussianMixtureModel,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="moons",
    measured=chosen,
    toy={"components": 2, "restarts": 1},
    toy_data="moons",
    citation="Dempster, Laird and Rubin, Maximum likelihood from incomplete data via the EM algorithm, JRSS B 39, 1977",
    training={"steps": 500},
)

__all__ = ["GaussianMixtureModel", "MixtureConfig", "entry"]
