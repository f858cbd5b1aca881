"""Probes and experiments of information: known rates, planes of trained runs, codes that pay and codes that do not."""

from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.core.pictures import Film, Lines, Passage, Scatter
from chainrule.explain import experiments, probes
from chainrule.explain.methods.step_surprisal import step_surprisal
from chainrule.information.estimates.pairwise import noisy_bounds
from chainrule.information.gaussian_outputs import dataset_information, output_information
from chainrule.train import Run, fit


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Run:
    plays = data.load("shakespeare", window=16)
    model = models.build("ngram", plays, order=2)
    return fit(
        model, plays, run=tmp_path_factory.mktemp("runs") / "text", steps=400, batch=256, log_every=100
    )


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Run:
    moons = data.load("moons", n=400)
    model = models.build("mlp", moons, width=5, depth=3, activation="tanh", dropout=0.0)
    folder = tmp_path_factory.mktemp("runs") / "moons"
    return fit(model, moons, run=folder, steps=60, batch=64, save_every=10, eval_every=10, keep=10)


def test_a_model_of_letter_pairs_knows_more_than_their_frequencies(text: Run) -> None:
    found = probes.examine("information-rate", text, samples=3000, draws=50)
    numbers = found.numbers
    assert numbers["information_rate"] == pytest.approx(numbers["unordered"] - numbers["predictive"])
    assert numbers["information_rate"] > 0.5
    assert numbers["interval"][0] < numbers["information_rate"] < numbers["interval"][1]
    assert numbers["unordered"] == pytest.approx(4.8, abs=0.3)  # letters of English text
    assert not numbers["flagged"]
    passage, profile = found.pictures
    assert isinstance(passage, Passage)
    assert isinstance(profile, Lines)
    for picture in found.pictures:
        assert report.draw(picture).startswith("<svg")


def test_every_token_is_judged_once_and_in_order(text: Run) -> None:
    split = text.data.test
    found = step_surprisal(text.model, text.data, split, 100)
    np.testing.assert_array_equal(found.tokens, split.arrays["tokens"][1:101])
    once = step_surprisal(text.model, text.data, split, 16)
    np.testing.assert_allclose(found.predictive[:16], once.predictive, rtol=1e-5)


def test_a_model_that_has_learnt_nothing_of_use_is_flagged(text: Run) -> None:
    blind = Run(text.path, data=text.data)
    tables = text.model.tables
    blind.__dict__["model"] = eqx.tree_at(
        lambda m: m.tables, text.model, tuple(-3 * table for table in tables)
    )
    found = probes.examine("information-rate", blind, samples=500, draws=20)
    assert found.numbers["flagged"]
    assert any("over-fitted" in sentence for sentence in found.findings)


def test_the_rate_of_a_linear_process_is_the_known_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = np.zeros((1200, 64))
    path[:, 0] = rng.normal(size=1200) / 0.6
    for t in range(1, 64):
        path[:, t] = 0.8 * path[:, t - 1] + rng.normal(size=1200)
    series = data.from_arrays(path[:, :, None], kind="sequence", split=(0.6, 0.2, 0.2))
    model = models.build("ar", series, order=1)
    run = fit(model, series, run=tmp_path / "ar", steps=150, batch=64, optimizer={"lr": 3e-2})
    found = probes.examine("information-rate", run, draws=50)
    assert found.numbers["information_rate"] == pytest.approx(0.737, abs=0.04)
    assert found.numbers["block"] == 64
    few = jnp.asarray(series.test.batch(np.arange(3)).x)
    nats = np.asarray(run.model.anomaly(few))
    np.testing.assert_allclose(nats.sum(axis=1), -np.asarray(run.model.log_prob(few)), rtol=1e-5)


def test_layers_of_every_checkpoint_stand_in_the_plane(classifier: Run) -> None:
    found = probes.examine("information-plane", classifier, examples=40, estimator="binning", bins=30)
    numbers = found.numbers
    assert numbers["steps"][0] == 0
    assert numbers["steps"][1:] == classifier.checkpoints
    assert numbers["layers"] == ["into blocks.1.linear", "into head", "out of head"]
    assert numbers["units"] == [5, 5, 2]
    assert (np.array(numbers["about_input"]) <= np.log2(40) + 1e-9).all()
    assert (np.array(numbers["about_target"]) <= 1 + 1e-9).all()
    scatter = found.pictures[0]
    assert isinstance(scatter, Scatter)
    assert "30 bins a unit" in scatter.x_label
    assert isinstance(found.pictures[-1], Film)
    noisy = probes.examine("information-plane", classifier, examples=40, noise=0.5)
    assert "with noise of 0.5" in noisy.pictures[0].x_label
    assert any("inequality" in sentence for sentence in noisy.findings)


def test_a_layer_that_tells_all_examples_apart_is_said_to_say_nothing(classifier: Run) -> None:
    found = probes.examine("information-plane", classifier, examples=40, noise=1e-4)
    assert any("tell all examples apart" in sentence for sentence in found.findings)


def test_a_code_that_pays_saves_bits(tmp_path: Path) -> None:
    bits = np.repeat(np.random.default_rng(0).integers(0, 2, (600, 2)), 6, axis=1).astype(np.float32)
    copies = data.from_arrays(bits, levels=2, copies="anywhere")
    settings = {"latent": 2, "width": 16, "warmup": 0.0}
    training = {"steps": 300, "batch": 64, "optimizer": {"lr": 1e-2}}
    run = fit(models.build("vae", copies, **settings), copies, run=tmp_path / "code", **training)
    outcome = probes.examine("latent-bits", run, steps=200)
    assert not any("go on with the run" in sentence for sentence in outcome.findings)
    found = outcome.numbers
    # Twelve independent coins cost 12 bits; two coins that are copied cost 2.
    assert found["decoder_alone"] == pytest.approx(12, abs=0.5)
    assert found["bound"] < 4
    assert found["saved"] == pytest.approx(found["decoder_alone"] - found["bound"])
    assert found["share_of_examples"] > 0.9


@pytest.mark.slow
def test_a_decoder_that_sees_what_came_before_needs_no_code(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    flips = rng.random((800, 6)) < np.where(np.arange(6) == 0, 0.5, 0.2)
    chains = data.from_arrays((np.cumsum(flips, axis=1) % 2).astype(np.float32), levels=2)
    model = models.build("vae", chains, decoder="autoregressive", latent=2, width=16, warmup=0.0, beta=1.2)
    run = fit(model, chains, run=tmp_path / "strong", steps=500, batch=64, optimizer={"lr": 3e-3})
    found = probes.examine("latent-bits", run, steps=100)
    assert abs(found.numbers["saved"]) < 0.3
    assert found.numbers["context"] > 0.5


def test_probes_decline_what_they_do_not_apply_to(text: Run, classifier: Run) -> None:
    for name, run in (
        ("information-rate", classifier),
        ("information-plane", text),
        ("latent-bits", classifier),
    ):
        with pytest.raises(CapabilityError, match=name):
            probes.examine(name, run)


def test_estimators_are_compared_with_the_truth_and_on_data_of_ones_own() -> None:
    quick = {"methods": ("ksg", "binning"), "n": 400}
    found = experiments.run("mutual-information", correlations=(0.0, 0.9), **quick).numbers
    assert found["truth"] == pytest.approx([0.0, 0.830366 / np.log(2)], abs=1e-5)
    assert found["estimates"]["ksg"] == pytest.approx(found["truth"], abs=0.15)
    even = experiments.run("mutual-information", correlations=(0.9,), **quick, edges="quantile", bins=8)
    assert even.numbers["estimates"]["binning"] == pytest.approx(found["truth"][1:], abs=0.4)
    assert even.numbers["estimates"]["binning"] != found["estimates"]["binning"][1:]
    moons = experiments.run("mutual-information", data="moons", load={"n": 400}, **quick)
    assert 0.8 < moons.numbers["estimates"]["ksg"] <= 1.05
    assert len(moons.numbers["columns"]) == 2
    with pytest.raises(ArgumentError, match="no method 'kgs'"):
        experiments.run("mutual-information", methods=("kgs",))
    with pytest.raises(ArgumentError, match="less than 1"):
        experiments.run("mutual-information", correlations=(1.0,))
    with pytest.raises(DataError, match="a target are needed"):
        experiments.run("mutual-information", data="shakespeare")


def test_columns_of_a_table_are_ranked_by_name_whatever_they_hold(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    size, colour = rng.normal(size=400), rng.integers(0, 2, 400)
    price = size + 2 * colour + 0.3 * rng.normal(size=400)
    rows = [
        f"{a:.4f},{('red', 'blue')[c]},{b:.4f},{p:.4f}"
        for a, c, b, p in zip(size, colour, rng.normal(size=400), price, strict=True)
    ]
    (tmp_path / "sales.csv").write_text("\n".join(["size,colour,nothing,price", *rows]))
    found = experiments.run(
        "mutual-information",
        data=str(tmp_path / "sales.csv"),
        load={"target": "price"},
        methods=("ksg", "noise"),
    )
    columns = found.numbers["columns"]
    assert list(columns)[-1] == "nothing"
    assert columns["nothing"] < 0.1 < 0.4 < columns["size"]
    assert any(name.startswith("colour") and value > 0.3 for name, value in columns.items())
    assert set(found.numbers["estimates"]) == {"ksg"}  # noise on numbers measures something else


def test_outputs_of_infinite_networks_learn_about_their_training_data() -> None:
    found = experiments.run("infinite-information", points=8, new=8, moments=6, steps=1000.0).numbers
    about = np.array(found["about_data"])
    assert about[0] == pytest.approx(0, abs=1e-6)
    assert (np.diff(about) > -1e-6).all()
    assert found["about_input"][0] == pytest.approx(0, abs=1e-6)
    assert found["about_target"][-1] <= found["about_input"][-1]


def test_information_of_gaussian_outputs_is_that_of_their_mixture() -> None:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=20)
    found = output_information(mean, np.full(20, 0.25), np.arange(20) % 2, unit="nats")
    low, high = noisy_bounds(mean[:, None], 0.5)
    assert low < found.about_input < high
    assert 0 < found.about_target < found.about_input
    joint = dataset_information(np.eye(2), np.eye(2), np.diag([3.0, 15.0]))
    assert joint == pytest.approx(1 + 2)
    with pytest.raises(ArgumentError, match="positive"):
        output_information([0.0], [0.0])
    with pytest.raises(ArgumentError, match="not positive definite"):
        dataset_information([[1.0]], [[0.0]], [[1.0]])
