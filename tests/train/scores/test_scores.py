"""Scores against scikit-learn and SciPy, exact over ragged last batches."""

import math
from dataclasses import replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from chainrule import models
from chainrule.core import progress, random
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch, Data, Scaling
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    CanPredict,
    HasBound,
    HasEnergy,
    HasLogProb,
    LogPartition,
    Metrics,
    Model,
)
from chainrule.train import Metric, score
from chainrule.train.evaluation import BATCH, mean_loss
from chainrule.train.scores import ESTIMATED, by_item, latents
from chainrule.train.scores.classification import calibration, classification, confusion, roc_auc
from chainrule.train.scores.exact_likelihood import likelihood
from chainrule.train.scores.loss import overfitting
from chainrule.train.scores.multilabel import multilabel
from chainrule.train.scores.regression import regression
from tests.train.toys import rows

N = BATCH + 188  # a full batch and a ragged one


@final
class Table(CanPredict):
    """Predicts what a table says about the number of the example."""

    table: Array

    def predict(self, x: Array) -> Array:
        return self.table[x[:, 0].astype(int)]

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return batch.x.mean(), {"largest": batch.x.max()}


@final
class Gaussian(HasLogProb, HasBound):
    """The standard normal distribution in model units, and a bound one nat below."""

    def log_prob(self, x: Array) -> Array:
        return -(jnp.square(x) + math.log(2 * math.pi)).sum(axis=1) / 2

    def elbo(self, x: Array, key: Key) -> Array:
        return self.log_prob(x) - 1

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return -self.log_prob(batch.x).mean(), {}


@final
class Bound(HasBound):
    """Only a bound, noisy by its key."""

    def elbo(self, x: Array, key: Key) -> Array:
        return jax.random.normal(key, (x.shape[0],)) - 5

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return -self.elbo(batch.x, key).mean(), {}


def guesses(classes: int, n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are right more often than not, and labels."""
    noise = np.random.default_rng(seed)
    labels = noise.integers(0, classes, n)
    logits = noise.normal(size=(n, classes)) + 1.5 * np.eye(classes)[labels]
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), labels


def numbered(y: np.ndarray, **options: object) -> Data:
    """Examples that are their own numbers, all in the test split."""
    return rows(np.arange(len(y), dtype=np.float32)[:, None], y, sizes=(0, len(y)), **options)


def test_scores_of_a_classifier_agree_with_scikit_learn_over_ragged_batches() -> None:
    p, labels = guesses(8)
    data = numbered(labels.astype(np.int32), target="class", classes=tuple("abcdefgh"))
    found = score(Table(jnp.asarray(p)), data)
    predicted = p.argmax(axis=1)
    accuracy = sklearn.metrics.accuracy_score(labels, predicted)
    assert found["accuracy"].value == pytest.approx(accuracy)
    assert found["accuracy"].stderr == pytest.approx(math.sqrt(accuracy * (1 - accuracy) / N))
    assert found["f1"].value == pytest.approx(sklearn.metrics.f1_score(labels, predicted, average="macro"))
    for name, reference in (
        ("precision", sklearn.metrics.precision_score(labels, predicted, average="macro")),
        ("recall", sklearn.metrics.recall_score(labels, predicted, average="macro")),
        ("roc_auc", sklearn.metrics.roc_auc_score(labels, p, multi_class="ovr")),
    ):
        assert found[name].value == pytest.approx(reference)
    top = sklearn.metrics.top_k_accuracy_score(labels, p, k=5)
    assert found["top_5_accuracy"].value == pytest.approx(top)
    assert found["loss"].value == pytest.approx((N - 1) / 2)
    asked = score(Table(jnp.asarray(p)), data, top=(2, 3))
    assert asked.keys() - found.keys() == {"top_2_accuracy", "top_3_accuracy"}
    for k in (2, 3):
        expected = sklearn.metrics.top_k_accuracy_score(labels, p, k=k)
        assert asked[f"top_{k}_accuracy"].value == pytest.approx(expected)
    with pytest.raises(ArgumentError, match="top-9 accuracy: there are 8 classes"):
        score(Table(jnp.asarray(p)), data, top=(9,))


def test_every_class_has_scores_of_its_own_as_in_the_report_of_scikit_learn() -> None:
    p, labels = guesses(3)
    names = ("cat", "dog", "e.g. a bird")
    found = score(Table(jnp.asarray(p)), numbered(labels.astype(np.int32), target="class", classes=names))
    reference = sklearn.metrics.classification_report(
        labels, p.argmax(axis=1), target_names=names, output_dict=True
    )
    whole, each = by_item(found)
    assert "accuracy" in whole
    assert list(each) == list(names)
    for name in names:
        ours = {measure: metric.value for measure, metric in each[name].items()}
        theirs = {measure.replace("-score", ""): value for measure, value in reference[name].items()}
        assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("positive", [None, "sick", "well"])
def test_of_two_classes_the_positive_one_is_stated_and_can_be_chosen(positive: str | None) -> None:
    p, labels = guesses(2)
    data = numbered(labels.astype(np.int32), target="class", classes=("sick", "well"))
    found = score(Table(jnp.asarray(p)), data, positive=positive)
    chosen = 0 if positive == "sick" else 1
    said, ours = p.argmax(axis=1) == chosen, labels == chosen
    expected = {
        "positive_precision": sklearn.metrics.precision_score(ours, said),
        "positive_recall": sklearn.metrics.recall_score(ours, said),
        "positive_f1": sklearn.metrics.f1_score(ours, said),
        "specificity": sklearn.metrics.recall_score(~ours, ~said),
        "positive_average_precision": sklearn.metrics.average_precision_score(ours, p[:, chosen]),
    }
    assert {name: found[name].value for name in expected} == pytest.approx(expected)
    assert {found[name].unit for name in expected} == {f"of {positive or 'well'}"}


def test_a_positive_class_that_makes_no_sense_is_refused() -> None:
    p, labels = guesses(3, n=40)
    data = numbered(labels.astype(np.int32), target="class", classes=tuple("abc"))
    model = Table(jnp.asarray(p))
    with pytest.raises(ArgumentError, match=r"positive='d': there is no such class"):
        score(model, data, positive="d")
    with pytest.raises(ArgumentError, match=r"only one of two classes is the positive one; these are 3"):
        score(model, data, positive="a")
    with pytest.raises(ArgumentError, match=r"positive='a': only predictions of classes have a positive one"):
        score(Dreamer(), data, positive="a")


def test_several_values_are_judged_one_by_one_as_well() -> None:
    noise = np.random.default_rng(5)
    y, p = noise.normal(size=(2, 40, 2)) * [1.0, 5.0]
    scaling = Scaling(np.array([1.0, 2.0]), np.array([0.5, 0.1]))
    data = numbered(y, target="value", target_shape=(2,), target_scaling=None)
    found = score(Table(jnp.asarray(p)), replace(data, target_scaling=scaling))
    true, said = scaling.inverse(y), scaling.inverse(p.astype(np.float32).astype(np.float64))
    for index, name in enumerate(["output 0", "output 1"]):
        ours = {measure: found[f"{measure}.{name}"].value for measure in ("rmse", "mae", "r2")}
        both = true[:, index], said[:, index]
        assert ours == pytest.approx(
            {
                "rmse": sklearn.metrics.root_mean_squared_error(*both),
                "mae": sklearn.metrics.mean_absolute_error(*both),
                "r2": sklearn.metrics.r2_score(*both),
            },
            rel=1e-5,
        )


def test_the_area_under_the_curve_of_two_classes_counts_ties_half_and_needs_both() -> None:
    p, labels = guesses(2)
    rounded = np.round(p[:, 1], 1)
    two = np.stack([1 - rounded, rounded], axis=1)
    assert roc_auc(two, labels) == pytest.approx(sklearn.metrics.roc_auc_score(labels, rounded))
    assert roc_auc(np.full((4, 2), 0.5), np.array([0, 1, 1, 0])) == 0.5
    assert "roc_auc" not in classification(two, np.zeros_like(labels))


def test_f1_leaves_out_classes_that_neither_occur_nor_are_predicted() -> None:
    p, labels = guesses(3)
    wide = np.concatenate([p, np.zeros((N, 4))], axis=1)
    ours = classification(wide, labels)["f1"].value
    assert ours == pytest.approx(sklearn.metrics.f1_score(labels, p.argmax(axis=1), average="macro"))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64])
def test_confusion_agrees_with_scikit_learn_for_any_type_of_label(dtype: type) -> None:
    p, labels = guesses(40)
    predicted = p.argmax(axis=1)
    ours = confusion(predicted.astype(dtype), labels.astype(dtype), 40)
    np.testing.assert_array_equal(ours, sklearn.metrics.confusion_matrix(labels, predicted))


def test_a_predictor_without_an_opinion_is_not_among_the_five_best() -> None:
    labels = np.arange(100) % 10
    found = classification(np.full((100, 10), 0.1), labels)
    assert found["accuracy"].value == pytest.approx(0.1)
    assert found["top_5_accuracy"].value == pytest.approx(0.5)


def test_calibration_error_is_the_gap_between_confidence_and_accuracy_by_bins() -> None:
    p, labels = guesses(4)
    error, mean, accuracy, count = calibration(p, labels, bins=10)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == labels
    expected = 0.0
    for k in range(10):
        inside = (confidence > k / 10) & (confidence <= (k + 1) / 10)
        assert count[k] == inside.sum()
        if inside.any():
            assert mean[k] == pytest.approx(confidence[inside].mean())
            assert accuracy[k] == pytest.approx(right[inside].mean())
            expected += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    assert error == pytest.approx(expected)


def test_a_calibrated_coin_has_no_calibration_error_and_a_confident_liar_has_all_of_it() -> None:
    labels = np.array([0, 0, 0, 1] * 25)
    assert calibration(np.tile([0.75, 0.25], (100, 1)), labels)[0] == pytest.approx(0)
    assert calibration(np.tile([0.0, 1.0], (100, 1)), np.zeros(100, int))[0] == pytest.approx(1)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_scores_of_a_regression_are_in_the_units_of_the_data(shape: tuple[int, ...]) -> None:
    noise = np.random.default_rng(0)
    raw = 50 + 10 * noise.normal(size=(N, *shape))
    guess = raw + noise.normal(size=(N, *shape))
    scaling = Scaling(50.0, 0.1)
    data = numbered(raw.astype(np.float32), target="value", target_scaling=scaling, target_shape=shape)
    found = score(Table(jnp.asarray(scaling.apply(guess))), data)
    flat = [a.reshape(N, -1) for a in (raw, guess)]
    assert found["rmse"].value == pytest.approx(
        sklearn.metrics.root_mean_squared_error(raw.ravel(), guess.ravel()), rel=1e-4
    )
    assert found["mae"].value == pytest.approx(sklearn.metrics.mean_absolute_error(*flat), rel=1e-4)
    # One number for several outputs weights each by its variance.
    r2 = 1 - np.square(flat[1] - flat[0]).mean() / np.square(flat[0] - flat[0].mean(axis=0)).mean()
    assert found["r2"].value == pytest.approx(r2, rel=1e-5)
    if not shape:
        assert found["r2"].value == pytest.approx(sklearn.metrics.r2_score(raw, guess), rel=1e-5)


def test_the_standard_error_of_the_rmse_is_that_of_repeated_experiments() -> None:
    noise = np.random.default_rng(0)
    data = numbered(np.zeros(N, np.float32), target="value")
    errors = [regression(noise.normal(size=N), np.zeros(N), data.target_scaling)["rmse"] for _ in range(300)]
    spread = np.std([error.value for error in errors])
    assert np.mean([error.stderr for error in errors]) == pytest.approx(spread, rel=0.15)


def test_a_constant_target_has_no_r_squared() -> None:
    data = numbered(np.zeros(4, np.float32), target="value")
    assert math.isnan(regression(np.ones(4), np.zeros(4), data.target_scaling)["r2"].value)


@pytest.mark.parametrize("factor", [0.5, np.array([0.5, 4.0, 1.0])])
def test_the_likelihood_of_continuous_data_is_in_nats_of_the_original_units(factor: object) -> None:
    raw = 7 + 2 * np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
    scaling = Scaling(7.0, factor)
    data = rows(raw, sizes=(0, N), scaling=scaling)
    # Standard normal in model units: mean 7 and standard deviation 1 / factor in the original ones.
    log_density = scipy.stats.norm(7, 1 / np.broadcast_to(factor, 3)).logpdf(raw).sum(axis=1)
    found = score(Gaussian(), data)
    assert found["nll"].value == pytest.approx(-log_density.mean(), rel=1e-5)
    assert found["nll"].unit == "nats"
    assert found["nll"].stderr == pytest.approx(log_density.std() / math.sqrt(N), rel=1e-4)
    assert "bits_per_dim" not in found  # it would change with the unit of measurement


def test_bits_per_dimension_of_dequantised_uniform_bytes_are_eight() -> None:
    raw = np.random.default_rng(0).integers(0, 256, size=(50, 4)).astype(np.uint8)
    data = rows(raw, sizes=(0, 50), scaling=Scaling(0.0, 1 / 256), levels=256)
    assert likelihood(np.zeros(50), data)["bits_per_dim"].value == pytest.approx(8)


def test_a_model_with_only_a_bound_is_scored_by_it_under_another_name() -> None:
    data = rows(np.zeros((N, 2), np.float32), sizes=(0, N))
    found = score(Bound(), data)
    assert found["nll_bound"].value == pytest.approx(5, abs=0.2)
    assert "nll" not in found
    assert "nll_bound" not in score(Gaussian(), data)
    assert score(Bound(), data) == found  # noise comes from the seed
    assert score(Bound(), data, seed=1) != found


def test_a_bound_is_estimated_on_some_examples_and_says_on_how_many() -> None:
    count = ESTIMATED + 5
    data = numbered(np.zeros(count, np.float32), target="value")
    updates: list[tuple[str, int, int]] = []
    with progress.listening(lambda *update: updates.append(update)):
        found = score(Bound(), data)["examples"]
    assert (found.value, found.unit) == (ESTIMATED, f"of {count:,}")
    assert updates == [("bound", done, ESTIMATED) for done in range(0, ESTIMATED + 1, BATCH)]
    assert "examples" not in score(Bound(), data, n=count)  # all of them
    every, some = (score(Table(jnp.zeros(count)), data, n=n) for n in (None, 100))
    assert "examples" not in every
    assert some["examples"].value == 100
    same = score(Table(jnp.ones(count)), data, n=100)
    assert same["loss"] == some["loss"] != every["loss"]  # every model is shown the same hundred
    with pytest.raises(ArgumentError, match="n=0: at least one example"):
        score(Bound(), data, n=0)


def test_means_weight_examples_and_not_batches() -> None:
    data = numbered(np.zeros(N, np.float32), target="value")
    values, count = mean_loss(Table(jnp.zeros(N)), data.test, random.key(0))
    assert count == N
    assert values["loss"] == pytest.approx((N - 1) / 2, rel=1e-6)
    values, count = mean_loss(Table(jnp.zeros(N)), data.test, random.key(0), most=100)
    assert count == 100
    assert values["loss"] == pytest.approx(99 / 2, rel=1e-6)


def test_the_overfitting_gap_is_the_held_out_loss_minus_that_on_training_examples() -> None:
    data = rows(np.arange(N, dtype=np.float32)[:, None], np.zeros(N, np.float32), sizes=(0, N - 600))
    found = score(Table(jnp.zeros(N)), data)
    assert found["overfitting_gap"].value == found["loss"].value - found["train_loss"].value > 0
    # As many training examples as are judged, drawn at random, or all where there are fewer.
    seen = np.sort(np.random.default_rng(0).choice(600, N - 600, replace=False))
    assert found["train_loss"].value == pytest.approx(seen.mean())
    assert "and 650 on these" in overfitting(found)
    assert "overfitting_gap" not in score(Table(jnp.zeros(N)), data, "train")
    assert "overfitting_gap" not in score(Table(jnp.zeros(N)), data, "train", n=10)
    nothing = numbered(np.zeros(N, np.float32), target="value")
    assert "overfitting_gap" not in score(Table(jnp.zeros(N)), nothing)


def test_an_empty_split_cannot_be_scored() -> None:
    data = rows(np.zeros((8, 2), np.float32))
    with pytest.raises(ArgumentError, match=r"the test split of toy has no examples"):
        score(Gaussian(), data)


@final
class Dreamer(Model):
    """Neither predicts nor knows a density."""

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return jnp.square(batch.x).mean(), {}


def test_only_a_loss_that_is_a_likelihood_of_labels_is_in_nats() -> None:
    p, labels = guesses(3, n=40)
    data = numbered(labels.astype(np.int32), target="class", classes=tuple("abc"))
    assert score(Table(jnp.asarray(p)), data)["loss"].unit == "nats"
    assert score(Dreamer(), data)["loss"].unit == ""


@final
class Measured(Model):
    """Says what its loss is measured in."""

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return jnp.square(batch.x).mean(), {}

    def loss_unit(self) -> str:
        return "nats per number"


def test_a_loss_has_the_unit_that_its_model_says() -> None:
    data = numbered(np.zeros(40, np.int32), target="class", classes=("a", "b"))
    assert score(Measured(), data)["loss"].unit == "nats per number"


@pytest.mark.parametrize(
    ("name", "schema", "settings", "unit"),
    [
        ("wavenet", Schema("sequence", (8, 1)), {}, "nats per number"),
        ("edm", Schema("points", (2,)), {"width": 4, "depth": 1}, "weighted squared error"),
        ("vdm", Schema("points", (2,)), {"width": 4, "depth": 1}, "nats per dimension"),
        ("hvae", Schema("points", (2,)), {"width": 4}, "nats per example"),
        ("autoencoder", Schema("points", (2,)), {"latent": 1, "width": 4}, "squared error per example"),
    ],
)
def test_models_say_what_their_loss_is_measured_in(
    name: str, schema: Schema, settings: dict[str, Any], unit: str
) -> None:
    assert models.build(name, schema, **settings).loss_unit() == unit


def test_the_error_of_an_estimate_is_finite_or_said_in_words() -> None:
    found = latents.estimate_error(np.array([0.3, np.inf, 0.4]))["nll_estimate_error"]
    assert found.value == pytest.approx(0.25)
    assert "unknown for 1 of 3 examples, where one code holds all weight" in found.unit
    assert (
        latents.estimate_error(np.array([0.3, 0.4]))["nll_estimate_error"].unit == "nats, of the codes drawn"
    )
    assert latents.estimate_error(np.array([np.inf, np.inf])) == {}


@final
class OneChain(HasEnergy):
    """Its factor rests on one chain of many: nothing is known of the error."""

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return jnp.square(batch.x).mean(), {}

    def free_energy(self, x: Array) -> Array:
        return jnp.zeros(len(x))

    def log_partition(self, key: Key) -> LogPartition:
        return LogPartition(1.0, np.inf, "annealed importance sampling", 0.01)

    @property
    def is_density(self) -> bool:
        return False


def test_a_factor_without_a_known_error_says_why() -> None:
    found = score(OneChain(), numbered(np.zeros(40, np.int32), target="class", classes=("a", "b")))
    assert "nll_estimate_error" not in found
    assert found["log_partition"].stderr is None
    assert found["log_partition"].kind.endswith("one chain holds all weight")


def test_a_metric_reads_like_a_measurement() -> None:
    assert str(Metric(0.97123, stderr=0.00412)) == "0.9712 ± 0.0041"
    assert str(Metric(2.5, "bits/dim")) == "2.5 bits/dim"
    assert Metric(1.0, "nats", 0.5).to_json() == {"value": 1.0, "unit": "nats", "stderr": 0.5}


def test_scores_of_labels_are_those_of_scikit_learn() -> None:
    noise = np.random.default_rng(3)
    truth = (noise.random((200, 4)) < [0.1, 0.3, 0.5, 0.7]).astype(np.uint8)
    p = np.round(np.clip(0.5 * truth + 0.6 * noise.random((200, 4)), 0, 1), 2)  # rounded: ties occur
    found = multilabel(p, truth, ["a", "b", "c", "d"])
    said = p >= 0.5
    expected = {
        "exact_match": sklearn.metrics.accuracy_score(truth, said),
        "label_accuracy": 1 - sklearn.metrics.hamming_loss(truth, said),
        "f1": sklearn.metrics.f1_score(truth, said, average="macro"),
        "roc_auc": sklearn.metrics.roc_auc_score(truth, p),
        "average_precision": sklearn.metrics.average_precision_score(truth, p),
        "f1.b": sklearn.metrics.f1_score(truth[:, 1], said[:, 1]),
        "roc_auc.d": sklearn.metrics.roc_auc_score(truth[:, 3], p[:, 3]),
        "precision.c": sklearn.metrics.precision_score(truth[:, 2], said[:, 2]),
        "recall.a": sklearn.metrics.recall_score(truth[:, 0], said[:, 0]),
        "support.a": truth[:, 0].sum(),
    }
    assert {name: found[name].value for name in expected} == pytest.approx(expected)


def test_a_label_that_does_not_occur_has_no_scores_of_its_own() -> None:
    truth = np.array([[1, 0], [0, 0], [1, 0]])
    found = multilabel(np.array([[0.9, 0.1], [0.2, 0.2], [0.8, 0.3]]), truth, ["a", "b"])
    assert {name for name in found if "." in name} == {
        f"{kind}.a" for kind in ("f1", "roc_auc", "average_precision", "precision", "recall", "support")
    }
    assert (found["f1"].value, found["roc_auc"].value, found["exact_match"].value) == (1.0, 1.0, 1.0)


P, LABELS = np.full((4, 3), 1 / 3), np.array([0, 1, 2, 0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: classification(P, np.array([0, 1, -1, 2])), "labels holds -1 at position 2; the 3 classes"),
        (lambda: classification(P, np.array([0, 1, 2, 5])), "labels holds 5 at position 3"),
        (
            lambda: classification(P, LABELS[:, None]),
            r"probabilities of shape \(4, 3\) and labels of shape \(4, 1\)",
        ),
        (lambda: roc_auc(P, LABELS[:3]), r"roc_auc: .* labels of shape \(3,\)"),
        (lambda: calibration(P, LABELS - 1), "calibration: labels holds -1"),
        (lambda: confusion(LABELS, LABELS[:, None], 3), "give both the same shape"),
        (lambda: confusion(LABELS, LABELS + 1, 3), "labels holds 3 at position 2"),
        (lambda: confusion(LABELS - 1, LABELS, 3), "predicted holds -1 at position 0"),
        (lambda: multilabel(np.ones((4, 2)), np.ones((4, 1)), ["a", "b"]), "give both the same shape"),
        (
            lambda: regression(np.ones((4, 1)), np.ones(4)),
            r"regression: .*shape \(4, 1\), true has shape \(4,\)",
        ),
    ],
)
def test_answers_that_do_not_go_with_the_questions_are_not_scored(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
