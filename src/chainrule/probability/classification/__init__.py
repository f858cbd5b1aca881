"""Classification by Bayes' rule: known classes and the error nobody can beat, and classes that are learnt from data."""

from chainrule.probability.classification.bayes import BayesClassifier, bayes_classifier
from chainrule.probability.classification.discrete import CountedClasses, count_classes
from chainrule.probability.classification.gaussian import (
    ClassCovariances,
    GaussianClasses,
    fit_gaussian_classes,
    ledoit_wolf,
)

__all__ = [
    "BayesClassifier",
    "ClassCovariances",
    "CountedClasses",
    "GaussianClasses",
    "bayes_classifier",
    "count_classes",
    "fit_gaussian_classes",
    "ledoit_wolf",
]
