"""Flows of some columns of a table given others, from the command line: train, draw, score, ranks."""

import csv
from pathlib import Path

import numpy as np
import pytest

from .conftest import Command

TRAIN = ["layers=1", "width=8", "blocks=0", "conditional=true", "steps=40", "batch=64", "optimizer.lr=0.02"]


def simulated(path: Path, n: int = 600) -> None:
    """Parameters and what is seen of them."""
    draw = np.random.default_rng(0)
    theta = draw.normal(size=(n, 2))
    seen = 3 * theta + 0.5 * draw.normal(size=(n, 2)) + 5
    rows = np.concatenate([theta, seen], axis=1)
    np.savetxt(path, rows, delimiter=",", header="alpha,beta,left,right", comments="")


@pytest.mark.slow
def test_columns_are_conditions_of_the_others_in_the_units_of_the_table(cli: Command) -> None:
    simulated(Path("seen.csv"))
    result = cli("train", "maf", "data=seen.csv", "data.target=left,right", *TRAIN, "--json")
    assert result.code == 0, result.err
    name = result.last["run"]
    result = cli("sample", name, "y=8,2", "n=300", "out=drawn", "--json")
    assert result.code == 0, result.err
    with Path("drawn/samples.csv").open() as file:
        heads, *rows = list(csv.reader(file))
    assert heads == ["alpha", "beta"]
    middle = np.array(rows, float).mean(axis=0)
    assert middle[0] > 0.4  # the exact posterior has its mean at 0.97 and -0.97
    assert middle[1] < -0.4
    result = cli("sample", name, "y=8", "n=3", "--json")
    assert result.code == 2
    assert "trained on numbers of shape (2,)" in result.err
    result = cli("probe", name, "ranks", "n=40", "draws=19", "--json")
    assert result.code == 0, result.err
    assert set(result.last["results"]["ranks"]["numbers"]["p_value"]) == {"alpha", "beta"}


@pytest.mark.slow
def test_scores_say_what_conditions_are_worth(cli: Command) -> None:
    simulated(Path("seen.csv"))
    name = cli("train", "maf", "data=seen.csv", "data.target=left,right", *TRAIN, "--json").last["run"]
    found = cli("score", name, "--json").last["metrics"]
    assert found["nll_given_condition"]["value"] < found["nll"]["value"]
