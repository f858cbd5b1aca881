"""Lengths of codes by way of a latent variable, on a table whose lengths are known."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.information import code_report

PRIOR = [0.5, 0.3, 0.2]
LIKELIHOOD = [[0.6, 0.2, 0.1, 0.1], [0.1, 0.4, 0.4, 0.1], [0.05, 0.05, 0.3, 0.6]]
POSTERIOR = [[0.8, 0.15, 0.05], [0.5, 0.4, 0.1], [0.3, 0.5, 0.2], [0.1, 0.3, 0.6]]


def test_bits_back_cost_the_entropy_and_the_divergence_of_the_posterior() -> None:
    found = code_report(PRIOR, LIKELIHOOD, POSTERIOR)
    assert found.entropy == pytest.approx(1.968895, abs=1e-6)
    assert found.divergence == pytest.approx(0.070096, abs=1e-6)
    assert found.bits_back == pytest.approx(2.038991, abs=1e-6)
    assert found.two_part == pytest.approx(3.253387, abs=1e-6)
    assert found.best_codeword == pytest.approx(2.609438, abs=1e-6)
    assert "2.038991 bits" in str(found)


def test_the_exact_posterior_costs_the_entropy_and_nats_are_bits_times_log_two() -> None:
    found = code_report(PRIOR, LIKELIHOOD)
    assert found.bits_back == pytest.approx(found.entropy)
    nats = code_report(PRIOR, LIKELIHOOD, POSTERIOR, unit="nats")
    assert nats.two_part == pytest.approx(3.253387 * np.log(2), abs=1e-6)
    assert nats.unit == "nats"


def test_data_of_another_law_cost_its_cross_entropy() -> None:
    found = code_report(PRIOR, LIKELIHOOD, POSTERIOR, data=[0, 0, 0, 1])
    assert found.entropy == pytest.approx(-np.log2(0.5 * 0.1 + 0.3 * 0.1 + 0.2 * 0.6))
    assert found.bits_back == pytest.approx(found.entropy + found.divergence)


def test_tables_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ArgumentError, match="3 rows for 2 values of z"):
        code_report([0.5, 0.5], LIKELIHOOD)
    with pytest.raises(ArgumentError, match="needs a row for each of 4 x"):
        code_report(PRIOR, LIKELIHOOD, np.full((3, 4), 1 / 4))
