"""Experiments on machines with kernels: numbers that are known."""

from chainrule.explain import experiments


def test_samples_far_apart_are_told_apart_and_the_witness_attains_their_distance() -> None:
    outcome = experiments.run("two-sample", shift=2.0, n=40, permutations=99, repeats=2)
    tests = outcome.numbers["tests"]
    assert all(test["p"] <= 0.05 for test in tests.values())
    assert outcome.numbers["mmd"] ** 2 - tests["biased"]["statistic"] < 1e-5
    assert "they differ" in outcome.findings[0]


def test_rings_are_found_by_their_spectrum_alone() -> None:
    right = experiments.run("kernel-clusters").numbers["right"]
    assert right["spectral clustering"] == 1
    assert right["k-means"] < 0.8
