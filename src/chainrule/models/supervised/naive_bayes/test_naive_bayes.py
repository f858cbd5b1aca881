"""Naive Bayes as a model: against scikit-learn, probabilities that sum to one, texts, what is refused."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.naive_bayes import BernoulliNB

import chainrule as cr
from chainrule import report
from chainrule.core.errors import CapabilityError
from chainrule.data import Data, Schema
from chainrule.data.batches import Batch
from chainrule.models.supervised.naive_bayes import NaiveBayes, NaiveBayesConfig

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def data() -> Data:
    return cr.data.load("binary-digits")


@pytest.fixture(scope="module")
def model(data: Data) -> NaiveBayes:
    fresh = cr.models.build("naive-bayes", data)
    assert isinstance(fresh, NaiveBayes)
    return fresh.iterate(data.train.batch(np.arange(len(data.train))), KEY)[0]


def test_binary_entries_are_those_of_scikit_learn(model: NaiveBayes, data: Data) -> None:
    train, test = (np.asarray(part.x).reshape(len(part), -1) for part in (data.train, data.test))
    theirs = BernoulliNB(alpha=1.0).fit(train, data.train.y)
    joint = eqx.filter_jit(lambda m, x: m.logits(x))(model, jnp.asarray(data.test.x))
    np.testing.assert_allclose(joint, theirs.predict_joint_log_proba(test), rtol=1e-5, atol=1e-4)


def test_probabilities_of_all_examples_sum_to_one() -> None:
    schema = Schema("table", (3,), target="class", classes=("a", "b"), levels=3)
    x = np.array(list(itertools.product(range(3), repeat=3)), np.float32) / 2
    y = np.arange(len(x)) % 2
    fitted, _ = NaiveBayes(NaiveBayesConfig(), schema, KEY).iterate(Batch(x, y), KEY)
    density = np.exp(np.asarray(fitted.log_prob(jnp.asarray(x))))
    np.testing.assert_allclose(
        density.sum() / 2**3, 1, rtol=1e-5
    )  # a density is a probability over 1/2 for each


def test_between_levels_there_are_gradients(model: NaiveBayes, data: Data) -> None:
    x = jnp.asarray(data.test.x[:1])
    gradient = jax.grad(lambda x: model.logits(x)[0, 0])(x)
    logs = np.asarray(model.entries.log_probs())[0]
    np.testing.assert_allclose(np.ravel(gradient), logs[:, 1] - logs[:, 0], rtol=1e-4)


def test_samples_of_a_class_have_its_frequencies(model: NaiveBayes) -> None:
    drawn = np.asarray(model.sample(KEY, 4000, condition=3))
    assert set(np.unique(drawn)) <= {0.0, 1.0}
    np.testing.assert_allclose(
        drawn.mean(axis=0).ravel(), np.exp(np.asarray(model.entries.log_probs())[3, :, 1]), atol=0.04
    )


@pytest.fixture(scope="module")
def texts() -> NaiveBayes:
    schema = Schema("text", (4,), target="class", classes=("a", "b"), tokens=("x", "y"))
    x = np.array([[0, 0, 2, 2], [0, 1, 0, 2], [1, 2, 2, 2], [1, 1, 2, 2]])
    return NaiveBayes(NaiveBayesConfig(), schema, KEY).iterate(Batch(x, np.array([0, 0, 1, 1])), KEY)[0]


def test_a_text_has_the_probability_of_its_tokens_and_its_end(texts: NaiveBayes) -> None:
    # Class a: x four times, y once, the end twice, one added to each: 5, 2 and 3 of 10. Class b: 1, 4 and 3 of 8.
    found = np.exp(np.asarray(texts.class_log_prob(jnp.array([[0, 1, 2, 2], [1, 2, 2, 2]]))))
    np.testing.assert_allclose(
        found, [[0.5 * 0.2 * 0.3, 4 / 8 * 1 / 8 * 3 / 8], [0.2 * 0.3, 4 / 8 * 3 / 8]], rtol=1e-5
    )


def test_sampled_texts_end_and_can_be_read(texts: NaiveBayes) -> None:
    drawn = np.asarray(texts.sample(KEY, 500))
    assert (drawn[:, -1] == 2).all()
    assert ((drawn[:, :-1] != 2) | (drawn[:, 1:] == 2)).all()
    from chainrule.data import kinds

    shown = kinds.of(texts.schema).picture(texts.schema, drawn[:3])
    assert all(set(row[0]) <= {"x", "y"} for row in shown.rows)


def test_numbers_without_levels_are_refused() -> None:
    with pytest.raises(CapabilityError, match="numbers without levels"):
        cr.models.build("naive-bayes", cr.data.load("moons"))


def test_pictures_can_be_drawn(model: NaiveBayes, texts: NaiveBayes, data: Data) -> None:
    found = [*model.pictures(data, KEY), *texts.pictures(data, KEY)]
    assert [one.name for one in found] == ["expected", "telling"]
    assert all(report.draw(one).startswith("<svg") for one in found)


def test_its_files_are_as_long_as_its_likelihood_says(model: NaiveBayes, data: Data) -> None:
    pytest.importorskip("constriction")
    x = np.asarray(data.test.x)
    code = model.code().with_rows(64)
    symbols = x.reshape(len(x), -1).astype(np.int32)
    costs = code.by_example(symbols)["likelihood"].sum(axis=1)
    exact = -np.asarray(eqx.filter_jit(NaiveBayes.log_prob)(model, jnp.asarray(x))) / np.log(2)
    np.testing.assert_allclose(costs, exact, rtol=1e-4)
    coded = code.encode(symbols, (0, 0), lambda done: None)
    assert 32 * len(coded.words) == pytest.approx(exact.sum(), rel=0.01)
    np.testing.assert_array_equal(code.decode(coded, len(x), (0, 0), lambda done: None), symbols)


def test_the_order_of_tokens_is_not_in_it() -> None:
    texts = cr.models.build("naive-bayes", cr.data.load("plays"))
    assert isinstance(texts, NaiveBayes)
    with pytest.raises(CapabilityError, match="not in which order"):
        texts.code()
