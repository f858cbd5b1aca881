"""Text and vectors as conditions on the command line: sampling by caption, its probes, and a swap of embeddings."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from chainrule import models
from chainrule.cli.embed import encoders
from chainrule.core.pictures import Images, Lines
from chainrule.data import Schema, load
from chainrule.explain import probes
from chainrule.train import Run, keep

from .conftest import Command


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of captioned digits at step 0: what is tested here does not depend on what was learnt."""
    folder, data = tmp_path_factory.mktemp("captioned"), load("captioned-digits")
    for name, model, settings in (
        ("drawn", "diffusion", {"denoiser": "dit", "width": 8, "depth": 1}),
        ("pairs", "pair-encoder", {"width": 8, "channels": 2, "features": 4}),
    ):
        keep(models.build(model, data, **settings), data, run=folder / name, origin={})
    return folder


@pytest.fixture
def kept(cli: Command, folder: Path) -> Path:
    return Path(shutil.copytree(folder, "runs"))


@pytest.mark.slow  # trains end to end
def test_images_are_drawn_for_captions_in_turn(cli: Command, kept: Path) -> None:
    result = cli(
        "sample", "drawn", "text=a three|two fives", "n=3", "steps=2", "guidance=2", "out=o", "--json"
    )
    with np.load("o/samples.npz") as file:
        found = dict(file)
    assert found["samples"].shape == (3, 8, 16, 1)
    assert found["captions"].tolist() == ["a three", "two fives", "a three"]
    assert Path(result.last["picture"]).exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["text=a tree"], "no caption in training has the word 'tree' (did you mean 'three'?)"),
        (["text=a three", "y=1"], "text and y: examples are asked for in one way"),
        (["class=3"], "these data have no classes"),
        (["y=three"], "y=three: numbers with commas between them"),
        (["guidance=2"], "guidance=2 leads towards a condition"),
    ],
    ids=["unknown word", "two ways", "class", "no numbers", "guidance to nothing"],
)
def test_what_cannot_be_asked_for_is_told(cli: Command, kept: Path, words: list[str], message: str) -> None:
    result = cli("sample", "drawn", "n=2", *words)
    assert result.code == 2
    assert message in result.err


@pytest.mark.slow
def test_a_judge_says_how_many_samples_show_their_caption(folder: Path) -> None:
    run = Run.open(folder / "drawn")
    found = probes.examine("captions", run, n=10, steps=2, weights=(2.0,))
    assert found.numbers["held_out"] > 0.8
    assert found.numbers["recognised"][0] < 0.5  # the model has learnt nothing
    assert [type(picture) for picture in found.pictures] == [Images, Lines]


@pytest.mark.slow
def test_attention_to_every_word_is_shown_step_by_step(folder: Path) -> None:
    run = Run.open(folder / "drawn")
    found = probes.examine("caption-attention", run, text="a three on the left", n=2, steps=2)
    assert found.numbers["words"] == ["whole", "a", "three", "on", "the", "left"]
    np.testing.assert_allclose(np.sum(found.numbers["shares"], axis=1), 1, atol=1e-5)
    assert found.pictures[0].images.shape == (2 * 7, 8, 16, 1)


def test_a_model_of_the_vectors_of_images_is_asked_with_those_of_captions(cli: Command, kept: Path) -> None:
    assert not cli("embed", "pairs", "out=images.npz").code
    assert not cli("embed", "pairs", "text=a three|two fives", "out=words.npz").code
    data = load("images.npz", levels=17)
    assert (data.schema.target_length, data.schema.target_shape) == (1.0, (4,))
    assert len(data.train) == 5748
    keep(models.build("diffusion", data, width=8, depth=1), data, run="runs/swap", origin={})
    assert not cli("sample", "swap", "y=words.npz", "n=2", "steps=2", "out=o").code
    with np.load("o/samples.npz") as file:
        assert file["samples"].shape == (2, 8, 16, 1)
    for vector, message in (("1,0,0", "numbers of shape (4,)"), ("2,0,0,0", "of length 2: the model was")):
        assert message in cli("sample", "swap", f"y={vector}", "n=2").err
    assert "gives captions no vectors" in cli("embed", "drawn", "text=a three").err
    assert "chainrule train pair-encoder data=captioned-digits" in cli("embed", "drawn", "text=a three").err
    assert "models that give such data vectors: pair-encoder\n" in cli("embed", "drawn").err


def test_models_that_encode_are_named_for_the_data_at_hand() -> None:
    text = Schema("text", (9,), tokens=("a", "b"))
    assert encoders(text) == "models that give such data vectors: bert, skip-gram, hmm"
    assert "vae" in encoders(Schema("points", (2,)))
    assert "pair-encoder" not in encoders(Schema("points", (2,)))


def test_vectors_of_texts_are_not_advised_for_drawing(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("to be or not to be " * 20)
    data = load("plain.txt", window=8)
    model = models.build("bert", data, layers=1, heads=1, width=4)
    keep(model, data, run="runs/texts", origin={})
    found = cli("embed", "texts")
    assert "vectors of 4" in found.out
    assert "chainrule train diffusion" not in found.out
