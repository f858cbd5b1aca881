"""The numbers in pictures of predictions, against scikit-learn, SciPy and counting by hand."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix as counts_by_sklearn
from sklearn.metrics import r2_score, root_mean_squared_error

from chainrule.core.formatting import number
from chainrule.core.pictures import Images, Table
from chainrule.data.schema import Schema
from chainrule.report import predictions

CLASSES = ("cat", "dog", "cow", "hen")
IMAGES = Schema("image", (3, 3, 1), target="class", classes=CLASSES, levels=17)
COLUMNS = ("a", "b", "c")
ROWS = Schema("table", (3,), target="class", classes=CLASSES, columns=COLUMNS)


@pytest.fixture(scope="module")
def guesses() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of four classes for 400 examples, too sure of themselves, and the truth."""
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(4, 0.4), size=400)
    truth = np.array([rng.choice(4, p=(p + 0.1) / 1.4) for p in probabilities])
    return probabilities, truth


def test_the_confusion_matrix_counts_what_sklearn_counts(guesses: tuple[np.ndarray, np.ndarray]) -> None:
    probabilities, truth = guesses
    picture = predictions.confusion_matrix(probabilities, truth, CLASSES)
    expected = counts_by_sklearn(truth, probabilities.argmax(axis=1))
    np.testing.assert_array_equal(picture.values, expected)
    assert picture.numbers
    wrong = expected.sum() - np.trace(expected)
    assert picture.caption.startswith(f"{wrong} of 400 examples wrong ({wrong / 4:.1f} %)")


def test_a_matrix_of_many_classes_has_no_numbers() -> None:
    many = [f"class {i}" for i in range(21)]
    assert not predictions.confusion_matrix(np.eye(21), np.arange(21), many).numbers


def test_the_caption_names_the_commonest_mistake() -> None:
    probabilities = np.eye(4)[[1, 1, 0, 2, 3]]
    picture = predictions.confusion_matrix(probabilities, np.array([0, 0, 0, 1, 3]), CLASSES)
    assert "“cat” was taken for “dog” (2)" in picture.caption


def test_the_reliability_curve_is_the_one_of_sklearn(guesses: tuple[np.ndarray, np.ndarray]) -> None:
    probabilities, truth = guesses
    picture = predictions.reliability(probabilities, truth)
    confidence, share, _, _ = picture.series["model"]
    right = probabilities.argmax(axis=1) == truth
    expected_share, expected_confidence = calibration_curve(right, probabilities.max(axis=1), n_bins=15)
    np.testing.assert_allclose(confidence, expected_confidence)
    np.testing.assert_allclose(share, expected_share)
    assert picture.diagonal
    assert "too sure" in picture.caption


def test_the_caption_gives_the_expected_calibration_error(guesses: tuple[np.ndarray, np.ndarray]) -> None:
    probabilities, truth = guesses
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    error = 0.0
    for low in np.arange(15) / 15:
        inside = (confidence > low) & (confidence <= low + 1 / 15)
        if inside.any():
            error += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    caption = predictions.reliability(probabilities, truth).caption
    assert f"Expected calibration error {number(error, 3)};" in caption


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (1, 1), (3, 10), (10, 10), (499, 1000)])
def test_intervals_are_those_of_wilson(hits: int, n: int) -> None:
    low, high = predictions.wilson(np.array([hits / n]), np.array([n]))
    expected = binomtest(hits, n).proportion_ci(method="wilson")
    np.testing.assert_allclose([low[0], high[0]], [expected.low, expected.high], atol=1e-7)


def test_the_surest_mistakes_come_first(guesses: tuple[np.ndarray, np.ndarray]) -> None:
    probabilities, truth = guesses
    pixels = np.arange(400 * 9).reshape(400, 3, 3, 1) % 17
    picture = predictions.confidently_wrong(probabilities, truth, pixels, IMAGES)
    assert isinstance(picture, Images)
    confidence = probabilities.max(axis=1) * (probabilities.argmax(axis=1) != truth)
    worst = np.argsort(-confidence)[:20]
    np.testing.assert_allclose(picture.images, pixels[worst] / 16)
    first = worst[0]
    taken = CLASSES[probabilities[first].argmax()]
    assert picture.labels[0] == f"{CLASSES[truth[first]]}→{taken} {confidence[first]:.2f}"


def test_mistakes_in_tables_are_rows_with_their_numbers(guesses: tuple[np.ndarray, np.ndarray]) -> None:
    probabilities, truth = guesses
    features = np.random.default_rng(1).normal(size=(400, 3))
    picture = predictions.confidently_wrong(
        probabilities, truth, features, ROWS, examples=1000 + np.arange(400)
    )
    assert isinstance(picture, Table)
    assert list(picture.columns) == ["example", "true", "predicted", "confidence", "a", "b", "c"]
    for example, true, predicted, confidence, *values in picture.rows:
        i = int(example) - 1000
        assert CLASSES[truth[i]] == true != predicted == CLASSES[probabilities[i].argmax()]
        assert confidence == probabilities[i].max()
        np.testing.assert_array_equal(values, features[i])


def test_without_mistakes_there_is_nothing_to_show() -> None:
    assert predictions.confidently_wrong(np.eye(4), np.arange(4), np.zeros((4, 3)), ROWS) is None
    assert "0 of 4" in predictions.confusion_matrix(np.eye(4), np.arange(4), CLASSES).caption


def test_a_text_that_was_taken_for_another_class_is_shown() -> None:
    schema = Schema("text", (4,), "class", classes=("one", "other"), tokens=("a", "b"))
    picture = predictions.confidently_wrong(
        np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]), np.array([[0, 0, 2, 2], [1, 0, 1, 2]]), schema
    )
    assert isinstance(picture, Table)
    assert picture.columns[-1] == "text"
    assert [row[-1] for row in picture.rows] == ["bab"]


def test_a_surface_asks_the_model_everywhere_around_the_points() -> None:
    schema = Schema("points", (2,), target="class", classes=("left", "right"))
    points = np.array([[-1.0, 10.0], [1.0, 30.0], [0.5, 20.0]])

    def predict(x: np.ndarray) -> np.ndarray:
        right = 1 / (1 + np.exp(-x[:, 0]))
        return np.stack([1 - right, right], axis=1)

    picture = predictions.decision_surface(predict, points, np.array([0, 1, 1]), schema)
    assert picture.field is not None
    left, right, bottom, top = picture.extent
    np.testing.assert_allclose([left, right, bottom, top], [-1.16, 1.16, 8.4, 31.6])
    np.testing.assert_allclose(picture.field[0], 1 / (1 + np.exp(-np.linspace(left, right, 90))))
    np.testing.assert_allclose(picture.field[0], picture.field[-1])
    np.testing.assert_array_equal(picture.groups["right"], points[1:])
    assert "“right”" in picture.caption
    points[:, 1] = 5.0
    left, right, bottom, top = predictions.decision_surface(
        predict, points.astype(np.float32), np.array([0, 1, 1]), schema
    ).extent
    assert left < right
    assert bottom < top


def test_predictions_of_values_are_scored_as_sklearn_does() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(300, 1)) * 5
    said = truth + rng.normal(size=(300, 1))
    picture = predictions.predicted_against_true(said, truth)
    r2, error = r2_score(truth, said), root_mean_squared_error(truth, said)
    assert (
        picture.caption
        == f"R² {number(r2, 3)}, root mean squared error {number(error, 3)} in the units of the data."
    )
    np.testing.assert_allclose(picture.groups["predictions"], np.hstack([truth, said]))


@pytest.mark.parametrize(("outputs", "groups"), [(1, 1), (3, 3), (12, 1)])
def test_outputs_are_shown_apart_while_they_are_few(outputs: int, groups: int) -> None:
    values = np.random.default_rng(0).normal(size=(2000, outputs))
    picture = predictions.predicted_against_true(values, values)
    assert len(picture.groups) == groups
    assert sum(len(points) for points in picture.groups.values()) <= 1500
    assert "point is shown" in picture.caption


def test_every_residual_is_in_one_bar() -> None:
    residual = np.random.default_rng(0).normal(size=500) - 0.3
    picture = predictions.residuals(residual, np.zeros(500))
    counts = picture.series["examples"]
    assert counts.sum() == 500
    centres = np.array([float(name.replace("−", "-")) for name in picture.positions])
    width = np.diff(centres).mean()
    edges = np.append(centres - width / 2, centres[-1] + width / 2)
    np.testing.assert_array_equal(counts, np.histogram(residual, edges)[0])
    assert "0" in picture.positions


@pytest.mark.parametrize("residual", [np.zeros(3), np.array([1e-12]), np.array([1e12, -1.0])])
def test_residuals_of_any_size_fit_the_histogram(residual: np.ndarray) -> None:
    picture = predictions.residuals(residual, np.zeros_like(residual))
    assert picture.series["examples"].sum() == len(residual)
    assert len(picture.positions) < 40
