"""Experiments on machines with kernels: numbers that are known."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import DataError
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


def test_a_parabola_is_seen_by_the_kernel_and_not_by_correlation() -> None:
    outcome = experiments.run("independence", relation="parabola", n=100, permutations=199, repeats=2)
    tests = outcome.numbers["tests"]
    assert all(test["p"] <= 0.01 for name, test in tests.items() if name != "correlation")
    assert tests["correlation"]["p"] > 0.05
    assert "Correlation does not see it" in outcome.findings[0]
    apart = experiments.run("independence", relation="none", n=100, permutations=199, repeats=2).numbers
    assert apart["tests"]["HSIC, unbiased"]["p"] > 0.05


def test_columns_that_a_target_depends_on_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 150))
    rows = [f"{x:.4f},{z:.4f},{'near' if x * x < 0.3 else 'far'}" for x, z in zip(a, b, strict=True)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["place,chance,kind", *rows]))
    found = experiments.run("independence", data=str(table), load={"target": "kind"}, permutations=199)
    assert found.numbers["dependent"] == ["place"]
    assert found.numbers["inputs"]["place"]["correlation_p"] > 0.05
    with pytest.raises(DataError, match=r"load\.target=COLUMN"):
        experiments.run("independence", data=str(table), load={"target": "none"})
