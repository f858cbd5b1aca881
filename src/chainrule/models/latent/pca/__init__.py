"""Principal component analysis."""

from chainrule.models.latent.pca.model import PCA, PCAConfig, checked
from chainrule.models.protocol import Entry

entry = Entry(
    name="pca",
    summary="Principal component analysis: the linear code that loses least, in closed form.",
    config=PCAConfig,
    build=PCA,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="digits",
    measured=checked,
    toy={"latent": 1},
    toy_data="moons",
    citation="Pearson, On lines and planes of closest fit to systems of points in space, Philosophical Magazine 1901",
)

__all__ = ["PCA", "PCAConfig", "entry"]
