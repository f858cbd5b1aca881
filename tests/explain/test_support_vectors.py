"""The experiment on support vectors: its numbers are those of scikit-learn on the same examples."""

import numpy as np
from sklearn.svm import SVC

from chainrule import report
from chainrule.explain import experiments
from chainrule.explain.experiments.support_vectors import SupportVectorsSettings, _examples


def test_support_vectors_and_accuracies_are_those_of_scikit_learn() -> None:
    settings = {"examples": 80, "C": (0.1, 10.0), "gamma": (0.3, 30.0)}
    outcome = experiments.run("support-vectors", **settings)
    seen = _examples(SupportVectorsSettings(**settings))
    for i, gamma in enumerate(settings["gamma"]):
        for j, price in enumerate(settings["C"]):
            theirs = SVC(C=price, gamma=gamma).fit(seen.x, seen.y)
            assert abs(outcome.numbers["support_vectors"][i][j] - len(theirs.support_)) <= 1
            expected = theirs.score(seen.test_x, seen.test_y)
            np.testing.assert_allclose(outcome.numbers["test_accuracy"][i][j], expected, atol=2e-3)
    assert all(report.draw(picture).startswith("<svg") for picture in outcome.pictures)
    # A narrow kernel and a high price fit training examples better than new ones.
    gap = np.array(outcome.numbers["train_accuracy"]) - np.array(outcome.numbers["test_accuracy"])
    assert gap[1, 1] == gap.max()
