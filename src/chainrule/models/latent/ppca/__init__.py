"""Probabilistic principal component analysis and factor analysis."""

from chainrule.models.latent.ppca.choice import chosen
from chainrule.models.latent.ppca.model import PPCA, PPCAConfig
from chainrule.models.protocol import Entry

entry = Entry(
    name="ppca",
    summary="Probabilistic PCA and factor analysis: linear factors under noise, with an exact likelihood.",
    config=PPCAConfig,
    build=PPCA,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    measured=chosen,
    toy={"latent": 1},
    toy_data="moons",
    citation="Tipping and Bishop, Probabilistic principal component analysis, JRSS B 61, 1999",
    training={"steps": 500},
)

__all__ = ["PPCA", "PPCAConfig", "entry"]
