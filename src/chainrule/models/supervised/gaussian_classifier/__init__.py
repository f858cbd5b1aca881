"""Gaussian classifiers: linear and quadratic discriminant analysis, Gaussian naive Bayes."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.gaussian_classifier.model import (
    GaussianClassifier,
    GaussianClassifierConfig,
    examined,
)

entry = Entry(
    name="gaussian-classifier",
    summary="A Gaussian for every class: linear or quadratic discriminant analysis, or naive Bayes, in closed form.",
    config=GaussianClassifierConfig,
    build=GaussianClassifier,
    kinds=("image", "points", "table", "sequence"),
    targets=("class",),
    data="digits",
    measured=examined,
    toy={"covariance": "per-class"},
    toy_data="moons",
    citation="Fisher, The use of multiple measurements in taxonomic problems, Annals of Eugenics 7, 1936",
    training={"steps": 1},
)

__all__ = ["GaussianClassifier", "GaussianClassifierConfig", "entry"]
