"""Every experiment runs at toy size, explains itself, and its pictures can be drawn; the numbers of some are known."""

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data as sources
from chainrule import models, report
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Table
from chainrule.explain import experiments
from chainrule.explain.experiments.search import SearchSettings, combinations, proposals
from chainrule.explain.experiments.skips import by_depth
from chainrule.explain.methods.training import Trained, stop_step, train, train_seeds
from chainrule.models.protocol import Model
from chainrule.train.config import LearningRateSchedule
from chainrule.train.schedules import schedule
from tests.tiers import tiers
from tests.train.toys import leaves

MEASURED = {
    *("auto-encoders", "linear-autoencoder"),
    *("attention-cost", "conditioner", "descent", "divergence-maps", "kernel-attention", "permutation"),
    *("random-features", "search", "skips", "slide-test", "vanishing-gradients"),
}
"""Experiments whose numbers, or whose every part, other tests look at."""
LONGER = {
    *("constructions", "embeddings", "far-field", "gradient-estimators", "langevin-failures", "lr-finder"),
    "optimizers",
    *("overfitting", "sawtooth", "schedules", "training-path"),
}


@pytest.mark.parametrize("name", tiers(experiments.names(), slow=MEASURED | LONGER))
def test_an_experiment_runs_and_everything_it_shows_can_be_drawn(name) -> None:
    said: list[str] = []
    found = experiments.get(name)
    outcome = experiments.run(name, said.append, **found.toy)
    assert found.summary.endswith(".")
    assert found.reference
    assert outcome.findings
    assert all(sentence.endswith(".") or "chainrule" in sentence for sentence in outcome.findings)
    assert outcome.numbers
    json.dumps(outcome.numbers)
    names = [picture.name for picture in outcome.pictures]
    assert len(set(names)) == len(names)
    for picture in outcome.pictures:
        if not isinstance(picture, Table):
            assert report.draw(picture).startswith("<svg")
    if outcome.table is not None:
        assert all(len(row) == len(outcome.table.columns) for row in outcome.table.rows)


def test_a_gradient_reaches_every_convolution_with_skips_and_without() -> None:
    digits = sources.load("digits")
    batch = jax.tree.map(jnp.asarray, digits.train.batch(np.arange(8)))
    for skip in (True, False):
        shape = {"depth": 8, "width": 2, "skip": skip, "zero_start": False}
        norms = by_depth(models.build("resnet", digits, **shape), batch)
        assert norms.shape == (7,)
        assert (norms > 0).all()


def test_the_descent_experiment_reproduces_the_known_numbers_and_catches_a_broken_assumption() -> None:
    numbers = experiments.run("descent").numbers
    assert numbers["gradient descent"]["gap"] == pytest.approx(0.066990, abs=1e-6)
    assert numbers["Nesterov"]["gap"] == pytest.approx(5.1435e-6, rel=1e-4)
    assert numbers["heavy ball"]["gap"] == pytest.approx(6.2e-12, rel=0.02)
    assert numbers["gradient descent"]["bounds"]["strongly convex"] == pytest.approx(18.4846, abs=1e-4)
    assert numbers["regret"] <= numbers["regret_bound"]
    broken = experiments.run("descent", lr=0.03, steps=20)
    assert "convex" in broken.numbers["gradient descent"]["violated"]
    assert any("bound violated" in sentence for sentence in broken.findings)


def test_descent_that_blows_up_is_called_so_and_still_drawn() -> None:
    blown = experiments.run("descent", lr=1.0, steps=200)
    assert blown.numbers["gradient descent"]["violated"]["convex"] == 1
    assert blown.numbers["Nesterov"]["violated"] == {"convex, accelerated": 0}
    for picture in blown.pictures:
        assert "<svg" in report.draw(picture)


def test_the_backward_pass_is_the_sum_over_paths() -> None:
    numbers = experiments.run("backward").numbers
    assert numbers["d_w1"] == pytest.approx(0.839949, abs=1e-6)
    assert numbers["d_x"] == pytest.approx(0.139336, abs=1e-6)


def test_the_backward_pass_of_a_formula_of_ones_own_is_shown_step_by_step() -> None:
    outcome = experiments.run("backward", f="x*y**2 + sin(x)", at={"y": 3.0}, x=0.5, paths="y", step=1)
    assert outcome.numbers["d_y"] == pytest.approx(3.0)
    assert outcome.numbers["d_x"] == pytest.approx(9 + np.cos(0.5))
    (shown,) = [p for p in outcome.pictures if p.name == "backward-steps"]
    assert isinstance(shown, Table)
    assert {row[0] for row in shown.rows} == {1}
    for settings, why in (
        ({"f": "x + z"}, "no value for z"),
        ({"f": "3"}, "no variable"),
        ({"f": "x", "at": {"y": 1.0}}, "not a variable"),
        ({"paths": "q"}, "the variables are w1, x, w2"),
        ({"step": 99}, "the steps 0 to 5"),
        ({"f": " + ".join(["sin(x)"] * 40)}, "too many to step through"),
    ):
        with pytest.raises(ArgumentError, match=why):
            experiments.run("backward", **settings)


def test_polynomial_activations_do_not_get_better_with_width() -> None:
    numbers = experiments.run("approximation", widths=[8, 64], seeds=1).numbers
    assert numbers["error"] == pytest.approx(0.001203, abs=1e-6)
    assert numbers["error"] <= numbers["bound"]
    assert numbers["floor_relu"] < 1e-3 < 0.1 < numbers["floor_square"]
    wider = experiments.run("approximation", widths=[8, 128], seeds=1).numbers
    assert wider["floor_square"] == pytest.approx(numbers["floor_square"], rel=1e-6)


def test_a_formula_of_ones_own_gets_a_network_within_the_error_asked_for() -> None:
    said: list[str] = []
    quick = {"widths": [2], "seeds": 1}
    one = experiments.run(
        "approximation", said.append, g="sin(3*x)", eps=0.01, curvature=9.0, **quick
    ).numbers
    assert said == ["11 pieces, at most 14 hidden units"]
    assert one["own"]["error"] <= one["own"]["bound"] <= 0.01
    assert one["own"]["bound_is"] == "proved"
    two = experiments.run("approximation", said.append, g="sin(x)*y", eps=0.2, **quick).numbers["own"]
    assert said[1].endswith(f"{two['units']} hidden units")
    assert two["error"] <= two["bound"] <= 0.2
    assert two["bound_is"] == "estimated"
    with pytest.raises(ArgumentError, match=r"takes .* hidden units, more than max_units=20,000"):
        experiments.run("approximation", said.append, g="x*y*z", eps=0.01, lipschitz=1.8, **quick)
    assert "hidden units" in said[2]
    with pytest.raises(ArgumentError, match="there is no variable"):
        experiments.run("approximation", g="3", **quick)
    with pytest.raises(ArgumentError, match="by slope only"):
        experiments.run("approximation", g="x*y", curvature=1.0, **quick)


def test_the_ball_needs_friction_of_three() -> None:
    numbers = experiments.run("friction", r=[1.0, 3.0], time=60.0).numbers
    assert not numbers["r = 1"]["kept"]
    assert numbers["r = 3"]["kept"]


def test_iterations_of_momentum_follow_the_ball_at_the_square_root_of_the_rate() -> None:
    coarse, fine = (experiments.run("friction", r=[3.0], time=10.0, lr=lr).numbers for lr in (0.01, 0.0001))
    assert coarse["r = 3"]["steps"] == 100
    assert coarse["x' = -grad f"]["steps"] == 1000
    for name in ("r = 3", "x' = -grad f"):  # closer as the steps get shorter
        assert fine[name]["distance"] < 0.2 * coarse[name]["distance"]
    assert fine["r = 3"]["distance"] < 0.02
    with pytest.raises(ArgumentError, match=r"longer than 1/L = 0\.5"):
        experiments.run("friction", curvatures=[2.0], lr=0.6)


def test_the_softmax_of_ones_own_logits_shares_ties_and_has_its_jacobian() -> None:
    numbers = experiments.run("softmax", logits=[1.0, 1.0, 0.0], temperature=0.01).numbers
    np.testing.assert_allclose(numbers["probabilities"], [0.5, 0.5, 0.0], atol=1e-12)
    assert numbers["jacobian_deviation"] < 1e-12


def test_a_convolution_is_a_banded_matrix_and_an_uneven_stride_draws_checkerboards() -> None:
    signal = [1.0, 2.0, 4.0, 0.0, -1.0]
    for mode in ("full", "same", "valid"):
        numbers = experiments.run("convolution", signal=signal, kernel=[1.0, 2.0, 3.0], mode=mode).numbers
        np.testing.assert_allclose(numbers["result"], np.convolve(signal, [1.0, 2.0, 3.0], mode), atol=1e-5)
        np.testing.assert_allclose(np.asarray(numbers["matrix"]) @ signal, numbers["result"], atol=1e-5)
    assert numbers["checkerboard"]
    assert np.asarray(numbers["matrix"]).shape == (3, 5)
    even = experiments.run("convolution", kernel=[1.0] * 4, stride=2).numbers
    assert not even["checkerboard"]
    assert even["transposed_size"] == len(even["cover"]) == 18
    with pytest.raises(ArgumentError, match="nothing is left"):
        experiments.run("convolution", padding=30)


def test_an_einsum_is_explained_and_a_tensor_of_ones_own_has_its_rank(tmp_path: Path) -> None:
    numbers = experiments.run("tensors", einsum="ii", shapes=["3x3"]).numbers
    assert numbers["summed"] == ["i"]
    assert (numbers["rank_low"], numbers["rank_high"]) == (3, 3)
    np.save(tmp_path / "t.npy", np.einsum("i,j,k->ijk", [1, 2], [1, 0, 1], [3, 1]))
    pure = experiments.run("tensors", file=str(tmp_path / "t.npy")).numbers
    assert pure["pure"]
    assert pure["rank_high"] == 1
    for settings, why in (
        ({"shapes": ["2x3"]}, "names 2 tensors"),
        ({"shape": "2x2"}, "takes 4 entries, not 8"),
        ({"shape": "2xa"}, "sizes from 1 to 64"),
        ({"file": str(tmp_path / "no.npy")}, "cannot be read"),
    ):
        with pytest.raises(ArgumentError, match=why):
            experiments.run("tensors", **settings)


def test_batch_norm_uses_the_batch_in_training_and_its_averages_in_evaluation() -> None:
    numbers = experiments.run("batch-norm", steps=200, batch=64).numbers
    assert numbers["deviation"] < 1e-5
    assert numbers["running_mean"] == pytest.approx(3.0, abs=0.3)
    assert numbers["running_variance"] == pytest.approx(4.0, abs=0.8)
    assert numbers["unbiased"] == pytest.approx(numbers["biased"] * 64 / 63)
    one = experiments.run("batch-norm", steps=1, new_weight=1.0).numbers
    assert one["train_against_evaluation"] < 1e-4


def test_affine_layers_collapse_and_states_are_named() -> None:
    straight = experiments.run("states", activation="identity", x=[1.0, 0.0, -1.0]).numbers
    assert straight["collapsed_layers"] == 1
    assert straight["deviation"] < 1e-5
    assert list(straight["states"]) == ["S0", "S1", "S2", "S3", "S4", "S5", "loss"]
    assert experiments.run("states").numbers["collapsed_layers"] == 3
    with pytest.raises(ArgumentError, match="2 numbers for 3 units"):
        experiments.run("states", x=[1.0, 2.0])


def test_distributions_formulas_truth_tables_and_polygons_of_ones_own() -> None:
    p, q = [0.2, 0.3, 0.5], [0.1, 0.1, 0.8]
    numbers = experiments.run("distances", of=p, against=q, base="2").numbers
    assert numbers["KL"]["forward"] == pytest.approx(
        sum(a * np.log2(a / b) for a, b in zip(p, q, strict=True))
    )
    assert numbers["event"] == [0, 1]
    assert experiments.run("distances", of=[2, 3, 5], against=[1, 1, 8], normalize=True).numbers["KL"][
        "forward"
    ] == pytest.approx(numbers["KL"]["forward"] * np.log(2), rel=1e-5)
    with pytest.raises(ArgumentError, match="as many outcomes"):
        experiments.run("distances", of=p)
    found = experiments.run("descent", f="(x - 1)**2 + 2*y**2", steps=60).numbers
    assert found["smoothness"] == pytest.approx(4.0, rel=1e-3)
    assert found["gradient descent"]["gap"] < 1e-10
    with pytest.raises(ArgumentError, match="its variables are z"):
        experiments.run("descent", f="z**2")
    made = experiments.run("constructions", table=[-1, 1, 1, -1], outline=[0, 0, 2, 0, 2, 2, 0, 2]).numbers
    assert (made["parity_units"], made["parity_right"]) == (2, 4)
    assert made["area"] == pytest.approx(4.0)
    for settings in ({"table": [1, -1, 1]}, {"table": [1, 2]}, {"outline": [0, 0, 1, 1]}):
        with pytest.raises(ArgumentError, match="it takes"):
            experiments.run("constructions", **settings)


def test_the_variance_of_any_model_is_judged_before_training() -> None:
    found = experiments.run("variance", model="mlp", data="moons", config={"width": 64, "depth": 6}, batch=64)
    assert found.numbers["mlp"]["verdict"] == "healthy"
    assert found.findings[0].startswith("mlp: healthy")


def test_early_stopping_goes_back_to_the_best_step() -> None:
    steps = np.arange(0, 70, 10)
    assert stop_step(steps, np.array([5, 4, 3, 4, 5, 6, 1.0]), patience=3) == (50, 20)
    assert stop_step(steps, np.array([7, 6, 5, 4, 3, 2, 1.0]), patience=3) == (60, 60)


def test_one_cycle_starts_at_a_25th_peaks_at_30_percent_and_ends_at_a_250_000th() -> None:
    factor = schedule(LearningRateSchedule(name="1cycle"), 1000)
    rates = 0.01 * np.asarray(jax.jit(jax.vmap(factor))(np.arange(1001)))
    assert rates[0] == pytest.approx(0.0004)
    assert rates[300] == pytest.approx(0.01)
    assert rates.argmax() == 300
    assert rates[1000] == pytest.approx(4e-8, rel=1e-3)


def test_a_surrogate_proposes_what_the_losses_so_far_speak_for() -> None:
    settings = SearchSettings(method="surrogate", trials=10)
    fields: dict[str, list[Any]] = {"width": [8, 64], "optimizer.lr": [1e-4, 1e-2, 1.0]}
    trials: list[Any] = []
    none, toy = np.zeros(1), models.build("mlp", sources.load("moons", n=50), width=2)
    for chosen in proposals(fields, settings, trials):
        assert isinstance(chosen["width"], int)
        assert 1e-4 <= chosen["optimizer.lr"] <= 1.0
        loss = (np.log10(chosen["optimizer.lr"]) + 2) ** 2
        trials.append((chosen, [Trained(none, none, {"loss": np.array([loss])}, none, toy, bool(loss < 3))]))
    assert len({str(chosen) for chosen, _ in trials}) == len(trials) == 10
    errors = [abs(np.log10(chosen["optimizer.lr"]) + 2) for chosen, _ in trials]
    assert min(errors[5:]) < min(0.15, min(errors[:5]))
    with pytest.raises(ArgumentError, match="a surrogate searches between numbers"):
        list(proposals({"activation": ["relu", "tanh"]}, settings, []))


def test_random_search_draws_different_combinations_and_ranges_by_logarithm() -> None:
    settings = SearchSettings(method="random", trials=50)
    found = combinations({"width": [8, 16], "optimizer.lr": [1e-4, 1e-1]}, settings)
    assert len(found) == 50
    rates = np.log10([one["optimizer.lr"] for one in found])
    assert -4 <= rates.min() < -3 < -2 < rates.max() <= -1
    few = combinations({"width": [8, 16]}, settings)
    assert sorted(one["width"] for one in few) == [8, 16]
    with pytest.raises(ArgumentError, match="names no setting"):
        experiments.run("search", search={})
    with pytest.raises(ArgumentError, match=r"a seed is not chosen"):
        experiments.run("search", search={"seed": [0, 1]})


def test_seeds_in_one_program_are_the_runs_they_are_alone_and_one_that_diverges_leaves_the_others_alone() -> (
    None
):
    data = sources.load("moons", n=200)
    chosen = {"batch": 16, "ema": 0.9, "optimizer": {"name": "momentum", "lr": 0.05}}
    cycle = {"schedule": {"name": "1cycle", "cycle_momentum": True}}

    def build(seed: int) -> Model:
        model = models.build("mlp", data, seed=seed, width=8, dropout=0.2, normalization="batch")
        # Weights that are not finite make the second seed fail in its first step.
        return eqx.tree_at(
            lambda m: m.head.weight, model, replace_fn=lambda w: w * (1 if seed != 4 else np.nan)
        )

    length = {"steps": 12, "every": 5}
    together = train_seeds(build, data, [3, 4, 5], **length, **chosen, **cycle)
    assert [one.is_finite for one in together] == [True, False, True]
    assert len(together[1].losses) == 0
    for seed, one in ((3, together[0]), (5, together[2])):
        alone = train(build(seed), data, **length, seed=seed, **chosen, **cycle)
        np.testing.assert_allclose(one.losses, alone.losses, rtol=1e-4)
        np.testing.assert_allclose(one.val["loss"], alone.val["loss"], rtol=1e-4)
        assert one.steps.tolist() == alone.steps.tolist() == [0, 5, 10, 12]
        for name, leaf in leaves(alone.model).items():
            np.testing.assert_allclose(leaves(one.model)[name], leaf, rtol=1e-3, atol=1e-5)
    assert not np.allclose(together[0].losses, together[2].losses, rtol=1e-2)
    with pytest.raises(ArgumentError, match="the model of seed 1 has other shapes"):
        train_seeds(lambda seed: models.build("mlp", data, width=4 + seed), data, [0, 1], **length)


def test_a_search_chooses_on_validation_tests_every_seed_of_the_best_and_names_the_command_to_train_it() -> (
    None
):
    search = {"width": 4, "optimizer": {"lr": [1e-5, 0.1]}, "steps": 20}
    outcome = experiments.run("search", data="moons", load={"n": 300}, search=search, seeds=2, seed=1)
    numbers = outcome.numbers
    losses = [one["val_loss"] for one in numbers["trials"]]
    assert losses == sorted(losses)
    assert numbers["best"]["optimizer.lr"] == 0.1
    assert numbers["test"]["accuracy"] == pytest.approx(np.mean(numbers["test_of_seeds"]["accuracy"]))
    assert len(numbers["test_of_seeds"]["accuracy"]) == 2
    assert outcome.findings[-1] == (
        "Train it: chainrule train mlp data=moons data.n=300 width=4 optimizer.lr=0.1 steps=20 seed=1"
    )


def test_settings_that_do_not_exist_or_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"unknown setting 'widht' .did you mean 'width'"):
        experiments.run("variance", widht=3)
    with pytest.raises(ArgumentError, match=r"there is no tap 'haed' .did you mean 'head'"):
        experiments.run("histograms", layer="haed", data="moons", steps=2, every=1, width=4)
    with pytest.raises(ArgumentError, match="one setting and two values"):
        experiments.run("histograms", compare={"activation": "relu"}, data="moons")
