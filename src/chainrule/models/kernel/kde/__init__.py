"""Kernel density estimates."""

from chainrule.models.kernel.kde.model import KDE
from chainrule.models.kernel.kde.settings import KDEConfig, measured
from chainrule.models.protocol import Entry

entry = Entry(
    name="kde",
    summary="Kernel density estimate: a bump on every example, as wide as validation asks for; exact likelihoods.",
    config=KDEConfig,
    build=KDE,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="moons",
    measured=measured,
    toy={"shape": "covariance", "width": 0.3},
    toy_data="moons",
    citation="Parzen, On estimation of a probability density function and mode, Annals of Mathematical Statistics "
    "33, 1962",
    training={"steps": 1},
)

__all__ = ["KDE", "KDEConfig", "entry"]
