"""Diffusion of codes as its user meets it: a first stage is trained, another model begins with it and draws alone."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from .conftest import Command

SHORT = ["steps=4", "batch=16", "eval_every=4"]
STAGES = {
    "latent-diffusion": ["vae", "latent=3", "width=8", "depth=1"],
    "vq-diffusion": ["vq-vae", "codes=6", "code_size=2", "slots=3", "width=8", "depth=1", "prior_layers=0"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGES)
def test_a_run_of_the_first_stage_is_all_it_takes(cli: Command, unreported: None, name: str) -> None:
    stage = cli("train", *STAGES[name], "data=moons", "data.n=200", *SHORT, "run=stage", "--json")
    assert stage.code == 0, stage.err
    begun = cli("train", name, "from=stage", "width=8", "depth=1", *SHORT, "run=drawn", "--json")
    assert begun.code == 0, begun.err
    shutil.rmtree("runs/stage")  # the run holds its first stage
    drawn = cli("sample", "drawn", "class=upper", "n=5", "steps=3", "--json").last
    with np.load(drawn["samples"]) as arrays:
        assert arrays["samples"].shape == (5, 2)
    assert cli("resume", "drawn", "steps=6", "--json").code == 0
    assert Path("runs/drawn/checkpoints/step-00000006").exists()


@pytest.mark.slow
def test_data_that_the_first_stage_does_not_know_are_refused_with_both_shapes(
    cli: Command, unreported: None
) -> None:
    stage = STAGES["latent-diffusion"]
    assert cli("train", *stage, "data=moons", "data.n=200", *SHORT, "run=stage", "--json").code == 0
    wrong = cli("train", "latent-diffusion", "from=stage", "data=digits")
    assert wrong.code == 2
    assert "knows examples of shape (2,); these have (8, 8, 1)" in wrong.err
    other = cli("train", "latent-diffusion", "from=stage", "body.latent=4")
    assert other.code == 2
    assert "code_shape=(3,): the codes of the first stage have the shape (4,)" in other.err


def _table(path: str, names: str, rows: np.ndarray) -> None:
    np.savetxt(path, rows, delimiter=",", header=names, comments="", fmt="%.5f")


@pytest.mark.slow
def test_a_table_whose_columns_the_first_stage_does_not_know_is_refused(
    cli: Command, unreported: None
) -> None:
    rows = np.random.default_rng(0).normal(size=(120, 3))
    _table("own.csv", "a,b,price", rows)
    _table("more.csv", "a,b,cost", rows * 1.1)
    _table("other.csv", "height,weight,price", rows)
    _table("shifted.csv", "a,b,price", rows * [1, 50, 1] + [0, 1000, 0])
    stage = STAGES["latent-diffusion"]
    made = cli("train", *stage, "data=own.csv", "data.target=price", *SHORT, "run=stage", "--json")
    assert made.code == 0, made.err
    begin = ["train", "latent-diffusion", "from=stage", "width=8", "depth=1", *SHORT]
    names = cli(*begin, "data=other.csv", "data.target=price")
    assert names.code == 3
    assert "stage reads the columns a, b; other has height, weight" in names.err
    scales = cli(*begin, "data=shifted.csv", "data.target=price")
    assert scales.code == 3
    assert "column b of shifted has another scale than that stage was trained on" in scales.err
    assert "leave data= out for the data of stage" in scales.err
    alike = cli(*begin, "data=more.csv", "data.target=cost", "run=alike", "--json")
    assert alike.code == 0, alike.err
