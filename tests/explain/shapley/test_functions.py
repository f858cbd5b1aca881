"""Functions explained: closed forms, what "absent" means, other packages, and what is refused."""

import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import chainrule as cr
from chainrule import models
from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.data import load
from chainrule.explain import Explanation, explain, feature_game, host_function, interactions, shapley
from chainrule.explain.methods.affine_parts import affine_parts, is_affine
from chainrule.explain.methods.functions import need_derivative
from chainrule.explain.methods.shapley.masked_functions import MaskedFunction
from chainrule.explain.methods.shapley.maskers.drawn import drawn_by, filled
from chainrule.explain.methods.shapley.maskers.gaussian import gaussian_of
from chainrule.explain.methods.shapley.maskers.images import blurred, mean_coloured, patch_pieces
from chainrule.explain.methods.shapley.maskers.masker import windows
from chainrule.explain.methods.shapley.maskers.replacing import baseline, interventional, picked
from chainrule.explain.methods.shapley.maskers.tokens import masked_tokens, removed_tokens
from chainrule.explain.methods.shapley.permutations import permutation_values

RANDOM = np.random.default_rng(0)
W, V = RANDOM.normal(size=(10, 8)).astype(np.float32), RANDOM.normal(size=(8, 2)).astype(np.float32)
W[4] = 0.0  # column 4 is not used
W[7] = W[6]  # columns 6 and 7 are used alike
X = RANDOM.normal(size=(3, 10)).astype(np.float32)
X[:, 7] = X[:, 6]
BACKGROUND = (3 * RANDOM.normal(size=(12, 10))).astype(np.float32)
BACKGROUND[:, 7] = BACKGROUND[:, 6]


def network(x: Any) -> Any:
    return jnp.tanh(x @ W) @ V


@pytest.fixture(scope="module")
def exact() -> Explanation:
    return quiet(network, X, BACKGROUND, output=1)


def quiet(*args: Any, **kwargs: Any) -> Explanation:
    """`shapley` of rows that may lie outside of the background."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainruleWarning)
        return shapley(*args, **kwargs)


def test_three_factors_share_their_product_alike() -> None:
    assert (
        shapley(lambda x: x[:, 0] * x[:, 1] * x[:, 2], [2.0, 3.0, 4.0], [0.0, 0.0, 0.0]).values.tolist()
        == [8] * 3
    )


@pytest.mark.parametrize("method", ["auto", "linear", "exact", "kernel", "permutation", "additive"])
def test_values_of_a_linear_function_are_slopes_times_distances(method: str) -> None:
    w = RANDOM.normal(size=6).astype(np.float32)
    x, rows = X[:, :6], BACKGROUND[:, :6]
    found = quiet(lambda x: x @ w + 3, x, rows, method=method)
    np.testing.assert_allclose(found.values, w * (x - rows.mean(axis=0)), atol=1e-5)
    assert found.is_additive
    assert ("closed form" in found.method) == (method in ("auto", "linear", "additive"))


def test_kernel_and_permutation_find_what_all_coalitions_say(exact: Explanation) -> None:
    kernel = quiet(network, X, BACKGROUND, "kernel", output=1)
    np.testing.assert_allclose(kernel.values, exact.values, atol=1e-5)
    sampled = quiet(network, X, BACKGROUND, "permutation", output=1, budget=1500, tol=0)
    assert sampled.errors is not None
    used = np.arange(10) != 4
    assert np.abs((sampled.values - exact.values)[:, used] / sampled.errors[:, used]).max() < 5
    for found in (exact, kernel, sampled):
        assert np.abs(found.residual).max() < 1e-5
        assert found.is_additive
    again = quiet(network, X, BACKGROUND, "permutation", output=1, budget=1500, tol=0)
    assert (again.values == sampled.values).all()


def test_unused_columns_get_nothing_and_twins_get_the_same(exact: Explanation) -> None:
    assert (exact.values[:, 4] == 0).all()
    np.testing.assert_allclose(exact.values[:, 6], exact.values[:, 7], atol=1e-6)


def test_columns_in_another_order_get_their_values_in_that_order(exact: Explanation) -> None:
    order = np.random.default_rng(1).permutation(10)
    back = np.argsort(order)
    found = quiet(lambda x: network(x[:, back]), X[:, order], BACKGROUND[:, order], output=1)
    np.testing.assert_allclose(found.values, exact.values[:, order], atol=1e-6)


def test_one_input_is_explained_as_in_a_batch(exact: Explanation) -> None:
    alone = quiet(network, X[1], BACKGROUND, output=1)
    np.testing.assert_allclose(alone.values, exact[1].values, atol=1e-6)
    assert (alone.is_batch, alone.values.shape) == (False, (10,))


def test_small_blocks_give_the_same(exact: Explanation) -> None:
    tight = quiet(network, X, BACKGROUND, output=1, memory=4000)
    np.testing.assert_allclose(tight.values, exact.values, atol=1e-6)


class Frame:
    """What pandas calls a data frame, as far as it is used."""

    def __init__(self, rows: np.ndarray, columns: str) -> None:
        self.rows, self.columns = rows, list(columns)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.rows[:, self.columns.index(name)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.rows.astype(dtype or self.rows.dtype)


def test_data_frames_give_features_their_names(exact: Explanation) -> None:
    found = quiet(network, Frame(X, "abcdefghij"), Frame(BACKGROUND, "abcdefghij"), output=1)
    assert found.names == tuple("abcdefghij")
    np.testing.assert_array_equal(found.values, exact.values)


def test_a_column_that_never_changes_hides_no_other_when_background_rows_are_picked() -> None:
    draw = np.random.default_rng(0)
    rows = np.column_stack([draw.normal(size=300), np.full(300, 0.1)])
    chosen, weights = picked(rows, 20, 0)
    alone, _ = picked(rows[:, :1], 20, 0)
    np.testing.assert_array_equal(chosen[:, 0], alone[:, 0])
    assert len(weights) == 20


def test_groups_are_named_by_the_columns_of_data_frames() -> None:
    frames = Frame(X, "abcdefghij"), Frame(BACKGROUND, "abcdefghij")
    by_name = quiet(network, *frames, output=1, groups={"pair": ["b", "d"]})
    by_number = quiet(network, X, BACKGROUND, output=1, groups={"pair": [1, 3]})
    assert by_name.names == ("a", "pair", *"cefghij")
    np.testing.assert_array_equal(by_name.values, by_number.values)


@pytest.mark.filterwarnings("ignore::chainrule.core.errors.ChainruleWarning")
def test_a_run_is_explained_in_raw_units_by_the_columns_of_its_table(tmp_path: Path) -> None:
    table = tmp_path / "homes.csv"
    rows = [f"{30 + i},{'flat' if i % 3 else 'house'},{2 * i + 5 * (i % 3)}" for i in range(60)]
    table.write_text("size,kind,rent\n" + "\n".join(rows) + "\n")
    data = load(table)
    run = cr.fit(models.build("mlp", data), data, steps=2, run=tmp_path / "run")
    raw = np.array([[40.0, 1.0, 0.0], [55.0, 0.0, 1.0]])
    found = shapley(run, raw, raw[::-1])
    assert found.names == ("size", "kind")
    assert found.is_additive
    for odd in ([40.0, 0.4, 0.6], [40.0, 1.0, 1.0]):
        with pytest.raises(
            ArgumentError, match=r"of the column 'kind', which no cell.*\n.*kind=flat, kind=house"
        ):
            shapley(run, np.array([odd]), raw)


def test_functions_of_torch_are_called_on_the_host(oracle: Callable[[str], ModuleType]) -> None:
    torch = oracle("torch")
    weights = torch.tensor([[1.0], [2.0]])
    found = shapley(lambda x: torch.tensor(x) @ weights, [[1.0, 1.0]], [[0.0, 0.0]])
    np.testing.assert_allclose(found.values, [[1.0, 2.0]])


def test_functions_on_the_host_are_explained_and_have_no_derivative(exact: Explanation) -> None:
    plain = host_function(lambda x: np.tanh(x @ W) @ V)
    np.testing.assert_allclose(quiet(plain, X, BACKGROUND, output=1).values, exact.values, atol=1e-5)
    forest = RandomForestRegressor(n_estimators=3, random_state=0).fit(BACKGROUND[:, :3], BACKGROUND[:, 3])
    found = quiet(forest.predict, X[:, :3], BACKGROUND[:, :3])
    assert found.is_additive
    with pytest.raises(ArgumentError, match="no derivative"):
        need_derivative("integrated_gradients", plain)


def test_interventions_and_conditions_answer_different_questions() -> None:
    def f(x: Any) -> Any:
        return x[:, 0] + 2 * x[:, 1]

    covariance = [[1.0, 0.5], [0.5, 1.0]]
    assert shapley(f, [1.0, 1.0], [0.0, 0.0]).values.tolist() == [1, 2]
    given = shapley(f, [1.0, 1.0], absent=gaussian_of([0, 0], covariance))
    np.testing.assert_allclose(given.values, [1.25, 1.75], atol=1e-5)
    # Draws in pairs are exact for linear functions, too, where tracing proves nothing.
    sampled = shapley(f, [1.0, 1.0], absent=gaussian_of([0, 0], covariance), method="exact")
    np.testing.assert_allclose(sampled.values, [1.25, 1.75], atol=1e-5)
    rows = np.random.default_rng(0).multivariate_normal([0, 0], covariance, size=3000)
    near = shapley(f, [1.0, 1.0], rows, absent="neighbours")
    np.testing.assert_allclose(near.values, [1.25, 1.75], atol=0.25)
    assert near.base == pytest.approx(f(rows).mean(), abs=1e-4)


def test_conditional_draws_have_the_moments_of_the_conditional_distribution() -> None:
    root = np.random.default_rng(0).normal(size=(3, 3))
    covariance, mean = root @ root.T + np.eye(3), np.array([1.0, -1.0, 0.5])
    masker = gaussian_of(mean, covariance, samples=4000)
    inputs, weights = masker.mixed(jnp.array([2.0, 9.0, 9.0]), jnp.array([True, False, False]), jnp.array(0))
    rows = np.asarray(inputs)
    assert weights.sum() == pytest.approx(1)
    assert (rows[:, 0] == 2).all()
    pull = covariance[1:, 0] / covariance[0, 0]
    np.testing.assert_allclose(rows[:, 1:].mean(axis=0), mean[1:] + pull, atol=1e-4)
    left = covariance[1:, 1:] - np.outer(pull, covariance[0, 1:])
    np.testing.assert_allclose(np.cov(rows[:, 1:].T), left, rtol=0.15, atol=0.1)


def test_a_model_that_draws_what_is_absent_gives_the_conditional_question() -> None:
    def draw(key: Any, x: Any, present: Any) -> Any:
        # Of two columns that are always equal, the present one tells the absent one.
        known = jnp.where(present[0], x[0], jnp.where(present[1], x[1], jax.random.normal(key)))
        return jnp.full(2, known)

    masker = drawn_by(draw, np.arange(2), ["used", "its twin"], samples=4)
    found = shapley(lambda x: 4 * x[:, 0], [1.0, 1.0], absent=masker)
    np.testing.assert_allclose(found.values[0], found.values[1], atol=1e-5)
    assert found.is_additive


def test_many_background_rows_are_picked_and_weighted() -> None:
    rows = np.random.default_rng(0).normal(size=(500, 4))
    chosen, weights = picked(rows, 40, 0)
    assert len(chosen) == 40
    assert weights.sum() == pytest.approx(1)
    assert (chosen[:, None] == rows[None]).all(axis=2).any(axis=1).all()
    assert np.abs(weights @ chosen - rows.mean(axis=0)).max() < 0.2
    assert interventional(rows).samples == 100


def test_groups_of_columns_share_one_value(exact: Explanation) -> None:
    groups = {"first": [0, 1, 2], "colour": [5, 8]}
    found = quiet(network, X, BACKGROUND, output=1, groups=groups)
    assert found.names == ("first", "x4", "x5", "colour", "x7", "x8", "x10")
    assert found.is_additive
    linear = quiet(lambda x: x @ W[:, 0], X, BACKGROUND, groups=groups)
    alone = quiet(lambda x: x @ W[:, 0], X, BACKGROUND)
    np.testing.assert_allclose(linear.values[:, 0], alone.values[:, :3].sum(axis=1), atol=1e-5)
    assert windows(5, 3) == {"1-3": [0, 1, 2], "4-5": [3, 4]}


@pytest.mark.parametrize("masker", [blurred, mean_coloured])
def test_pieces_of_images_are_taken_away_together(masker: Callable[..., Any]) -> None:
    images = np.random.default_rng(0).random((2, 8, 8, 1)).astype(np.float32)
    pieces = patch_pieces(8, 8, 4)
    found = shapley(lambda x: x[:, :4, :4].sum(axis=(1, 2, 3)), images, absent=masker(images, pieces))
    assert found.values.shape == (2, 4)
    assert (found.values[:, 1:] == 0).all()
    reference = np.asarray(masker(images, pieces).replacements)[:, 0]
    np.testing.assert_allclose(
        found.values[:, 0], (images - reference)[:, :4, :4].sum(axis=(1, 2, 3)), rtol=1e-4
    )
    assert found[0].membership is not None
    assert (found[0].membership[..., 0] == pieces).all()


def test_tokens_are_masked_or_removed() -> None:
    tokens = np.array([[3, 1, 2, 5]])
    worth = jnp.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0])
    found = shapley(
        lambda t: worth[t].sum(axis=1), tokens, absent=masked_tokens(tokens, 0, ["a", "b", "b", "c"])
    )
    assert (found.values.tolist(), found.names) == ([[4, 1, 2, 16]], ("1 a", "2 b", "3 b", "4 c"))
    words = masked_tokens(tokens, 0, groups={"word": [0, 1]})
    assert shapley(lambda t: worth[t].sum(axis=1), tokens, absent=words).values.tolist() == [[5, 2, 16]]
    for side, expected in (("right", [3, 2, 0, 0]), ("left", [0, 0, 3, 2])):
        masker = removed_tokens(tokens, 0, padding=side)
        left = masker.mixed(jnp.asarray(tokens[0]), jnp.array([True, False, True, False]), jnp.array(0))[0]
        assert left[0].tolist() == expected


def test_interactions_of_a_product_lie_between_its_factors() -> None:
    game = feature_game(lambda x: x[:, 0] * x[:, 1] + x[:, 2], [2.0, 3.0, 5.0], [0.0, 0.0, 0.0])
    assert interactions(game).values.tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 5]]


def test_affine_programs_are_recognised_and_cut_at_their_layers() -> None:
    assert is_affine(lambda x: x @ W - 1, X)
    for curve in (jax.nn.relu, jnp.abs, jnp.square, jax.nn.softmax):
        assert not is_affine(lambda x, curve=curve: curve(x @ W) @ V, X)
    assert not is_affine(lambda x: jnp.where(x > 0, x, 0.0), X)
    assert not is_affine(lambda x: x * x[:, :1], X)

    def residual(x: Any) -> Any:
        hidden = (x - 1) / 2 @ W
        return jax.nn.relu(hidden) @ V + hidden[:, :2] + jnp.arange(2.0)[None]

    for f in (network, residual, lambda x: jnp.tanh(x) + x):
        parts = affine_parts(f, (10,), np.float32)
        assert parts is not None
        np.testing.assert_allclose(parts.last(parts.middle(parts.first(jnp.asarray(X)))), f(X), rtol=1e-6)
        one, two, none = (parts.first(jnp.asarray(part)) for part in (X, BACKGROUND[:3], np.zeros_like(X)))
        both = parts.first(jnp.asarray(X + BACKGROUND[:3]))
        for a, b, c, together in zip(one, two, none, both, strict=True):
            np.testing.assert_allclose(a + b - c, together, atol=1e-5)


def test_explain_says_method_and_cost_before_it_starts() -> None:
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChainruleWarning)
        explain(network, X, BACKGROUND, output=0, listener=said.append)
    assert said == ["exact: at most 1,024 coalitions, 36,864 evaluations"]


def test_explanations_are_saved_loaded_and_sliced(exact: Explanation, tmp_path: Path) -> None:
    exact.save(tmp_path / "found")
    loaded = Explanation.load(tmp_path / "found")
    for name in ("values", "base", "outputs", "x", "membership"):
        assert (getattr(loaded, name) == getattr(exact, name)).all()
    assert (loaded.names, loaded.method, loaded.kind, loaded.background) == (
        *(exact.names, exact.method, exact.kind),
        exact.background,
    )
    assert len(loaded[1:]) == 2
    np.testing.assert_allclose(loaded.mean_absolute(), np.abs(exact.values).mean(axis=0))
    (tmp_path / "found.json").write_text("{}")
    with pytest.raises(DataError, match="no explanation can be read"):
        Explanation.load(tmp_path / "found")


def test_values_that_do_not_add_up_are_flagged() -> None:
    wrong = quiet(network, X, BACKGROUND, "additive", output=1)
    assert not wrong.is_additive
    assert "too large" in str(wrong)
    with pytest.raises(ArgumentError, match="miss the output by"):
        wrong.check()


@pytest.mark.slow
def test_shap_gives_the_same_values(oracle: Callable[[str], ModuleType], exact: Explanation) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shap = oracle("shap")
        predict = lambda x: np.asarray(network(np.asarray(x, np.float32)))[:, 1]  # noqa: E731
        kernel = shap.KernelExplainer(predict, BACKGROUND)
        theirs = kernel.shap_values(X, nsamples=2**10, l1_reg=False, silent=True)
        np.testing.assert_allclose(theirs, exact.values, atol=1e-4)
        for explainer in (shap.ExactExplainer, shap.PermutationExplainer):
            many = explainer(predict, shap.maskers.Independent(BACKGROUND, max_samples=100))
            found = many(X[:1]) if explainer is shap.ExactExplainer else many(X[:1], max_evals=20_000)
            tolerance = 1e-4 if explainer is shap.ExactExplainer else 0.05
            np.testing.assert_allclose(found.values, exact.values[:1], atol=tolerance)
        slope = W[:, 0]
        linear = shap.LinearExplainer((slope, 1.0), shap.maskers.Independent(BACKGROUND, max_samples=100))
        mine = quiet(lambda x: x @ slope + 1, X, BACKGROUND)
        np.testing.assert_allclose(linear.shap_values(X), mine.values, atol=1e-4)
        exported = exact.to_shap()
        assert (exported.values == exact.values).all()


def test_orders_and_interactions_are_those_of_shap(oracle: Callable[[str], ModuleType]) -> None:
    """Where no more than two features act together, a pair of opposite orders is exact in both packages.

    Interactions of more than two are divided otherwise there (Shapley-Taylor), so that only these can be compared.
    """
    matrix = np.random.default_rng(2).normal(size=(5, 5)).astype(np.float32)
    x, rows = X[:2, :5], BACKGROUND[:6, :5]

    def pairs(x: Any) -> Any:
        return ((x @ matrix) * x).sum(axis=1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shap = oracle("shap")
        masker = shap.maskers.Independent(rows, max_samples=100)
        theirs = shap.PermutationExplainer(pairs, masker)(x, max_evals=200).values
        both = shap.ExactExplainer(pairs, masker)(x, interactions=2).values
        game = feature_game(pairs, x, rows)
    draw = lambda random, pairs: random.permuted(np.tile(np.arange(5), (pairs, 1)), axis=1)  # noqa: E731
    np.testing.assert_allclose(permutation_values(game, budget=60, draw=draw).values, theirs, atol=1e-4)
    np.testing.assert_allclose(interactions(game).values, both, atol=1e-4)


def unsafe(x: Any) -> Any:
    return jnp.log(x[:, 0]) + x[:, 1]


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (lambda: shapley(network, X), "background=None"),
        (
            lambda: shapley(network, X, BACKGROUND[:, :9]),
            r"inputs have shape \(10,\), background rows \(9,\)",
        ),
        (
            lambda: shapley(network, Frame(X, "abcdefghij"), Frame(X, "abcdefghik"), output=0),
            "x alone has: j; background alone has: k",
        ),
        (
            lambda: shapley(network, Frame(X, "abcdefghij"), Frame(X, "bacdefghij"), output=0),
            "they stand in another order",
        ),
        (lambda: shapley(network, X, BACKGROUND, output=2), "f has 2 outputs"),
        (lambda: shapley(network, X, BACKGROUND), "f has 2 outputs"),
        (
            lambda: shapley(network, X, BACKGROUND, output="cat", output_names=["dog", "cats"]),
            "did you mean 'cats'",
        ),
        (lambda: shapley(network, X, BACKGROUND[:1], output=0, absent="gaussian"), "has no covariance"),
        (lambda: shapley(network, X, BACKGROUND[:1], output=0, absent="neighbours"), "no neighbours"),
        (lambda: shapley(network, X, BACKGROUND, output=0, absent="baseline"), "a baseline is one"),
        (lambda: shapley(network, X, BACKGROUND, output=0, absent="gone"), "absent must be"),
        (lambda: shapley(network, [["red"] * 10], BACKGROUND), "not numbers"),
        (lambda: shapley(network, np.full((1, 10), np.nan), BACKGROUND), "x holds nan in row 0, entry 0"),
        (
            lambda: shapley(network, X, BACKGROUND, output=0, groups={"a": [0], "b": [0]}),
            "in the groups 'a' and 'b'",
        ),
        (lambda: shapley(network, X, BACKGROUND, output=0, names=["a"]), "1 names for 10 features"),
        (
            lambda: shapley(network, X, BACKGROUND, output=0, names=list("aacdefghij")),
            "two players are called 'a'",
        ),
        (
            lambda: shapley(network, X, BACKGROUND, output=0, names=list("abcdefghij"), groups={"j": [0]}),
            "two players are called 'j'",
        ),
        (
            lambda: shapley(network, Frame(X, "abcdefghij"), Frame(X, "bacdefghij"), groups={"g": [0, 1]}),
            "they stand in another order",
        ),
        (
            lambda: shapley(network, Frame(X, "abcdefghij"), BACKGROUND, output=0, groups={"g": ["a", "z"]}),
            "'z', which the inputs do not have",
        ),
        (lambda: shapley(network, X[:0], BACKGROUND, output=0), r"x has shape \(0, 10\)"),
        (lambda: shapley(network, X, BACKGROUND[:0], output=0), r"background has shape \(0, 10\)"),
        (
            lambda: shapley(network, X, np.where(BACKGROUND > 1, np.inf, BACKGROUND), output=0),
            "background holds inf in row",
        ),
        (lambda: shapley(network, X, BACKGROUND, output=0, seed=-1), r"seed=-1"),
        (lambda: shapley(network, X, BACKGROUND, output=0, tol=float("nan")), "tol=nan"),
        (
            lambda: shapley(network, X, BACKGROUND, "permutation", output=0, budget=35),
            "use budget=36 or more",
        ),
        (
            lambda: shapley(network, X, BACKGROUND, absent=baseline(BACKGROUND[0]), output=0),
            "a masker says itself",
        ),
        (
            lambda: shapley(network, X[:, :9], absent=baseline(BACKGROUND[0]), output=0),
            r"the masker was made for \(10,\)",
        ),
        (
            lambda: shapley(lambda x: np.array(["yes"] * len(x)), X, BACKGROUND),
            "f gives values of type <U3",
        ),
        (lambda: shapley(lambda x: x, X[:, :3, None], X[:, :3, None]), "f gives an array of shape"),
        (lambda: shapley(3, X, BACKGROUND), "f must be a function"),
        (lambda: masked_tokens(X, 0), "tokens are of type float32"),
    ],
)
@pytest.mark.filterwarnings("ignore::chainrule.core.errors.ChainruleWarning")
def test_bad_requests_say_what_to_do(action: Callable[[], object], why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        action()


def test_a_value_that_is_not_finite_is_named_with_row_and_mask() -> None:
    with pytest.raises(DataError, match=r"nan for row 0 with the coalition \{\} present"):
        shapley(unsafe, np.array([[1.0, 1.0]]), np.array([[-1.0, 1.0]]), names=["a", "b"])


def test_truth_values_are_numbers() -> None:
    found = shapley(lambda x: x[:, 0] + 2 * x[:, 1], np.array([True, True]), np.array([[False, True]]))
    np.testing.assert_allclose(found.values, [1, 0], atol=1e-6)


def test_inputs_outside_of_the_background_are_named() -> None:
    with pytest.warns(ChainruleWarning, match="outside of the range of the background in x2"):
        shapley(lambda x: x.sum(axis=1), [0.5, 9.0], [[0.0, 0.0], [1.0, 1.0]])


def test_a_model_that_fills_gaps_of_images_stands_for_absent_patches() -> None:
    digits = load("digits")
    model = models.build("bert", digits, width=8, heads=1, layers=1, patch=4)
    x = np.asarray(digits.train.batch(np.arange(2)).x)
    absent = filled(model, digits.schema.shape, samples=2)
    found = shapley(lambda x: x[:, :4, :4, 0].sum(axis=(1, 2)), x, absent=absent)
    assert found.names == ("patch 1", "patch 2", "patch 3", "patch 4")
    assert found.is_additive
    seen = MaskedFunction(lambda x: x[:, :4, :4, 0].sum(axis=(1, 2)), x, absent)
    masks = np.array([[True, False, False, False], [True, True, False, True], [False, True, True, True]])
    worths = seen(masks)
    np.testing.assert_allclose(worths[:, :2], np.repeat(found.outputs[:, None], 2, axis=1), rtol=1e-5)
    assert (np.abs(worths[:, 2] - found.outputs) > 1e-3).all()
