"""The probe `attributions`: of images, of rows and of texts, what it promises and what it refuses."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import ArgumentError
from chainrule.explain import probes
from chainrule.explain.methods.token_functions import next_token
from chainrule.train import Run, keep

QUICK: dict[str, Any] = {"rows": "0:2", "background": 6, "samples": 16, "fits": 2, "nodes": 8, "stages": 2}
METHODS = {
    "saliency",
    "gradient x input",
    "integrated gradients",
    "expected gradients",
    "SmoothGrad",
    "DeepLIFT",
}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Run:
    images = data.load("digits")
    model = models.build("mlp", images, width=8, depth=2)
    return keep(model, images, run=tmp_path_factory.mktemp("runs") / "digits", origin={})


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Run:
    text = data.load("shakespeare", window=12)
    model = models.build("gpt", text, layers=1, heads=2, width=8)
    return keep(model, text, run=tmp_path_factory.mktemp("runs") / "plays", origin={})


def test_images_are_explained_by_every_method_with_numbers_that_fit_together(digits: Run) -> None:
    found = probes.examine("attributions", digits, patch=2, **QUICK)
    numbers = found.numbers
    assert set(numbers["values"]) == METHODS | {"LIME"}
    assert all(np.shape(values) == (2, 16) for values in numbers["values"].values())
    assert np.shape(numbers["agreement"]) == (7, 7)
    assert set(numbers["deletion area"]) == METHODS | {"LIME", "random order"}
    assert np.abs(numbers["residual"]["DeepLIFT"]).max() < 1e-4
    assert numbers["shuffled"]["layers"] == ["head", "blocks.0.linear"]
    assert len(numbers["shuffled"]["saliency"]) == 2
    assert "values miss the change of the output by at most" in found.findings[0]
    assert {picture.name for picture in found.pictures} == {
        *("attributions", "attributions-agreement", "attributions-deletion", "attributions-insertion"),
        "attributions-weights",
    }
    assert all(report.draw(picture).startswith("<svg") for picture in found.pictures)


def test_an_output_may_be_asked_for_by_name(digits: Run) -> None:
    found = probes.examine("attributions", digits, out="logit:7", **QUICK)
    assert found.numbers["output"] == "logit of 7"
    with pytest.raises(ArgumentError, match="no output has the name"):
        probes.examine("attributions", digits, out="logit:x", **QUICK)
    with pytest.raises(ArgumentError, match="no numbers of rows"):
        probes.examine("attributions", digits, **{**QUICK, "rows": "first"})


@pytest.mark.slow
def test_a_text_is_explained_token_by_token(plays: Run) -> None:
    found = probes.examine("attributions", plays, text="To be or", **QUICK)
    assert found.numbers["names"] == list("To be or")
    assert np.shape(found.numbers["values"]["integrated gradients"]) == (1, 8)
    assert found.numbers["output"].startswith("log-probability of")
    drawn: Any = found.pictures[0]
    assert list(drawn.columns) == list("To be or")


def test_the_function_of_vectors_is_the_model_where_the_vectors_are_its_own(plays: Run) -> None:
    model: Any = plays.model
    tokens = np.array([3, 1, 4, 1, 5])
    f = next_token(model, tokens)
    vectors = f.vectors_of(tokens[None])
    expected = jax.nn.log_softmax(model.logits(jnp.asarray(tokens[None]))[:, -1])
    np.testing.assert_allclose(f(jnp.asarray(vectors)), expected, rtol=1e-4, atol=1e-5)
    slope = jax.grad(lambda v: f(v)[0, 2])(jnp.asarray(vectors))
    way = np.zeros_like(vectors)
    way[0, 1, 3] = 1
    up, down = (float(f(jnp.asarray(vectors + s * 1e-2 * way))[0, 2]) for s in (1, -1))
    np.testing.assert_allclose(float(slope[0, 1, 3]), (up - down) / 2e-2, rtol=0.05, atol=1e-4)


def test_models_with_neither_prediction_nor_likelihood_are_refused(digits: Run) -> None:
    assert probes.get("attributions").applies(digits.model, digits.schema)
    assert not probes.get("attributions").applies(
        models.build("gan", digits.data, **models.entry("gan").toy), digits.schema
    )
