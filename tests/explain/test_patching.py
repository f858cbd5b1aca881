"""The probe `patching` of translators and of vision transformers: what is asked, and what is refused."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from chainrule import data, explain, models, report
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Images
from chainrule.explain import probes
from chainrule.explain.methods.image_tiles import overlaid
from chainrule.train import Run, keep

PAIRS = {"text": "May 3, 1998", "corrupted": "May 3, 1988", "written": "199", "answer": "9", "against": "8"}


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Run:
    dates = data.load("dates")
    model = models.build("translator", dates, layers=1, heads=2, width=8)
    return keep(model, dates, run=tmp_path_factory.mktemp("runs") / "dates", origin={})


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Run:
    digits = data.load("digits")
    model = models.build("vit", digits, layers=2, heads=2, width=8, patch=4)
    return keep(model, digits, run=tmp_path_factory.mktemp("runs") / "digits", origin={})


def test_a_translator_is_asked_what_it_writes_next(translator: Run) -> None:
    outcome = probes.examine("patching", translator, **PAIRS)
    model, schema, numbers = translator.model, translator.schema, outcome.numbers
    target = schema.target_tokens
    y = jnp.asarray([[target.index(one) for one in "199"] + [len(target)]])
    differences = []
    for text in (PAIRS["text"], PAIRS["corrupted"]):
        x = jnp.asarray([[schema.tokens.index(one) for one in text] + [len(schema.tokens)]])
        logits = np.asarray(model.logits(x, y))[0, 3]
        differences.append(float(logits[target.index("9")] - logits[target.index("8")]))
    found = [numbers["clean_difference"], numbers["corrupted_difference"]]
    assert found == pytest.approx(differences, abs=1e-5)
    assert numbers["clean"] == "May 3, 1998 → 199"
    source = np.asarray(numbers["encoder-resid_pre"])
    assert source.shape == (1, len(PAIRS["text"]) + 1)
    np.testing.assert_allclose(
        source[0], np.arange(12) == 9, atol=1e-2
    )  # the token that differs, before any layer
    assert np.asarray(numbers["decoder-resid_pre"]).shape == (1, 4)
    assert [picture.columns for picture in outcome.pictures if picture.name == "patching-cross-out"] == [
        ["begin", "1", "9", "9"]
    ]
    assert all(report.draw(picture).startswith("<svg") for picture in outcome.pictures)


def test_what_a_translator_has_written_is_patched_too(translator: Run) -> None:
    asked = {"text": "May 3, 1998", "written": "19", "corrupted_written": "20"}
    outcome = probes.examine("patching", translator, **asked)
    stream = np.asarray(outcome.numbers["decoder-resid_pre"])
    assert stream[0, 0] == pytest.approx(0, abs=1e-2), "the begin mark is the same"
    np.testing.assert_allclose(outcome.numbers["encoder-resid_pre"], 0, atol=1e-2)  # and so is the source
    assert "the token at the last position" in outcome.findings[2]
    found = probes.examine("patching", translator).numbers  # all by itself
    clean, corrupted = (found[one].split(" → ") for one in ("clean", "corrupted"))
    assert sum(a != b for a, b in zip(clean[0], corrupted[0], strict=True)) == 1
    assert clean[1] == corrupted[1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"corrupted": "May 3, 98"}, "corrupted: 9 tokens, the clean text has 11"),
        ({"corrupted_written": "2"}, "corrupted_written: 1 tokens, the clean text has 3"),
        ({"corrupted": PAIRS["text"]}, "the same text"),
        ({"answer": "99"}, "'99' is 2 tokens"),
        ({"image": "1"}, "the model reads text data, not images"),
        ({"text": 99 * "1"}, "the text has 99 tokens"),
    ],
)
def test_wrong_pairs_are_refused(translator: Run, wrong: dict[str, str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        probes.examine("patching", translator, **{**PAIRS, **wrong})


def test_the_end_of_a_target_is_an_answer(translator: Run) -> None:
    assert probes.examine("patching", translator, **{**PAIRS, "answer": "end"}).numbers["answer"] == "end"


def test_patches_of_one_image_are_put_into_another(vit: Run, tmp_path: Path) -> None:
    outcome = probes.examine("patching", vit, image="3", other="5", answer="1", against="7")
    x = jnp.asarray(vit.data.test.batch(np.array([3, 5])).x)
    logits = np.asarray(vit.model.logits(x))
    found = [outcome.numbers["clean_difference"], outcome.numbers["corrupted_difference"]]
    assert found == pytest.approx(logits[:, 1] - logits[:, 7], abs=1e-5)

    def upper_left(value: Any, name: str) -> Any:
        clean = explain.run_with_cache(vit.model.stream_logits, x[:1], names=name)[1][name]
        return value.at[:, 1].set(clean[:, 1])  # the first position is the token that gathers

    hooks = {"blocks.1.resid_pre": upper_left}
    patched = explain.run_with_hooks(vit.model.stream_logits, x[1:], hooks=hooks)[0, 0]
    share = (float(patched[1] - patched[7]) - found[1]) / (found[0] - found[1])
    assert outcome.numbers["resid_pre"][1][1] == pytest.approx(share, abs=1e-3)
    sheet = outcome.pictures[0]
    assert isinstance(sheet, Images)
    assert sheet.columns == 4, "the two images and two layers"
    assert outcome.numbers["clean"].startswith("test image 3 (")
    pixels = np.asarray(vit.data.inverse(vit.data.test.batch(np.array([5])).x))[0, ..., 0]
    Image.fromarray((pixels * 255 / 16).astype(np.uint8)).save(tmp_path / "five.png")
    other = probes.examine("patching", vit, image="3", other=str(tmp_path / "five.png")).numbers
    assert other["corrupted"] == "five.png"


def test_two_images_of_different_classes_are_found(vit: Run) -> None:
    numbers = probes.examine("patching", vit).numbers
    assert numbers["clean"].split("(")[1] != numbers["corrupted"].split("(")[1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"image": "9999"}, "image=9999: there are 180 test images"),
        ({"other": "none.png"}, "other=none.png: there is no such file"),
        ({"image": "2", "other": "2"}, "the same image"),
        ({"answer": "cat"}, "unknown class 'cat'"),
        ({"answer": "1", "against": "1"}, "two different classes"),
        ({"text": "cat"}, "the model reads image data, not text"),
        ({"written": "cat"}, "the model writes no target"),
    ],
)
def test_wrong_images_are_refused(vit: Run, wrong: dict[str, str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        probes.examine("patching", vit, **wrong)


def test_a_map_over_an_image_is_blue_where_it_is_positive_and_orange_where_it_is_negative() -> None:
    tile = overlaid(np.zeros((4, 4, 1)), np.array([[1.0, 0.0], [-1.0, 0.0]]))
    red, blue = tile[..., 0], tile[..., 2]
    assert tile.shape == (4, 4, 3)
    assert (blue[:2, :2] > red[:2, :2]).all()
    assert (red[2:, :2] > blue[2:, :2]).all()
    assert (red[:, 2:] == blue[:, 2:]).all()
