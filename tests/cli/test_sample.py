import json
import shutil
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from chainrule import models
from chainrule.core import random
from chainrule.core.pictures import Images
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch, Data, load
from chainrule.data.text.tokenization import passages
from chainrule.models.protocol import CanSample, Metrics
from chainrule.train import Run, fit
from chainrule.train import keep as kept
from tests.models.diffusion.test_sampling_options import add_sampler

from .conftest import Command


@final
class Blob(CanSample):
    """Noise around one trained example per class; options of several types."""

    centre: Array
    classes: int = eqx.field(static=True)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        del key
        return jnp.square(batch.x - self.centre[:1]).mean(), {}

    def sample(
        self,
        key: Key,
        n: int,
        *,
        condition: Any = None,
        spread: float = 0.1,
        mode: str = "round",
        **options: Any,
    ) -> Array:
        if options:
            raise TypeError(f"unexpected {options}")
        assert mode in ("round", "1")
        chosen = jnp.zeros(n, int) if condition is None else jnp.asarray(condition)
        shape = (n, *self.centre.shape[1:])
        return self.centre[chosen] + spread * jax.random.normal(key, shape)


@final
class Plain(CanSample):
    """Takes no options at all."""

    centre: Array

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        del key
        return jnp.square(batch.x - self.centre[None]).mean(), {}

    def sample(self, key: Key, n: int, *, spread: float = 0.0) -> Array:  # type: ignore[override]
        del key
        return jnp.broadcast_to(self.centre + spread, (n, *self.centre.shape))


@final
class Letters(CanSample):
    """Tokens in their order, after the prompt."""

    weight: Array

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        del batch, key
        return jnp.square(self.weight).sum(), {}

    def sample(self, key: Key, n: int, *, prompt: str = "", **options: Any) -> Array:
        del key, options
        row = jnp.arange(len(prompt), len(prompt) + 5)
        return jnp.broadcast_to(row, (n, 5)) + jnp.zeros_like(self.weight).astype(int)


def keep(model: CanSample, data: Data, path: Path) -> Path:
    """The folder of a run of a model class of the tests."""
    return fit(model, data, run=path, steps=2, batch=8).path


def arrays(path: str) -> dict[str, np.ndarray]:
    """What a file of samples holds."""
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def _blob(tmp_path_factory: pytest.TempPathFactory) -> tuple[Blob, Path]:
    data = load("digits")
    centres = np.stack([data.train.x[data.train.y == i][0] for i in range(10)])
    model = Blob(jnp.asarray(centres), 10)
    return model, keep(model, data, tmp_path_factory.mktemp("runs") / "toy")


@pytest.fixture
def digits(cli: Command, monkeypatch: pytest.MonkeyPatch, _blob: tuple[Blob, Path]) -> Run:
    """A run of the blob, in ./runs, which the command line can open like that of a registered model."""
    model, path = _blob
    monkeypatch.setattr(Run, "builder", lambda self: lambda: model)
    return Run.open(shutil.copytree(path, "runs/toy"))


def test_samples_are_written_as_numbers_and_as_a_picture(cli: Command, digits: Run) -> None:
    result = cli("sample", "toy", "n=6", "out=drawn", "--json")
    assert result.code == 0, result.err
    assert result.last["samples"] == "drawn/samples.npz"
    assert result.last["picture"] == "drawn/samples.png"
    stored = arrays("drawn/samples.npz")
    assert list(stored) == ["samples"]
    assert stored["samples"].shape == (6, 8, 8, 1)
    assert stored["samples"].max() > 2  # in the levels of the data, not in [0, 1]
    assert set(np.unique(stored["samples"])) <= set(range(17))


def test_the_picture_says_where_it_came_from(cli: Command, digits: Run) -> None:
    assert cli("sample", "toy", "n=2", "seed=5", "spread=0.2").code == 0
    with Image.open("runs/toy/samples/samples.png") as picture:
        text = picture.text  # type: ignore[attr-defined]
    assert text["run"] == "toy"
    assert text["step"] == "2"
    assert text["seed"] == "5"
    assert json.loads(text["settings"])["spread"] == "0.2"


def test_the_seed_decides_the_samples(cli: Command, digits: Run) -> None:
    drawn = []
    for seed in ("1", "1", "2"):
        assert cli("sample", "toy", "n=2", f"seed={seed}", "out=o").code == 0
        drawn.append(arrays("o/samples.npz")["samples"])
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != drawn[2]).any()


@pytest.mark.parametrize(("word", "labels"), [("class=3", [3, 3, 3, 3]), ("class=1,7,2", [1, 7, 2, 1])])
def test_classes_can_be_asked_for_and_are_written_down(
    cli: Command, digits: Run, word: str, labels: list[int]
) -> None:
    result = cli("sample", "toy", "n=4", word, "spread=0", "out=o")
    assert result.code == 0, result.err
    stored = arrays("o/samples.npz")
    assert stored["labels"].tolist() == labels
    centres = np.rint(np.asarray(digits.model.centre)[labels] * 16)  # type: ignore[attr-defined]
    assert (stored["samples"] == centres).all()


def test_people_are_told_where_the_files_are(cli: Command, digits: Run) -> None:
    lines = cli("sample", "toy", "n=2").out.splitlines()
    assert lines == ["samples  runs/toy/samples/samples.npz", "picture  runs/toy/samples/samples.png"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["n=0"], "error: n=0: n must be a whole number of at least 1"),
        (["n=many"], "error: n=many: n must be a whole number of at least 1"),
        (["seed=-1"], "error: seed=-1: seed must be a whole number of at least 0"),
        (["class=11"], "error: class=11: unknown class '11'"),
        (["class=1,x"], "error: class=1,x: unknown class 'x'"),
    ],
)
def test_a_mistake_in_the_words_is_told(cli: Command, digits: Run, words: list[str], message: str) -> None:
    result = cli("sample", "toy", *words)
    assert result.code == 2
    assert message in result.err


def test_options_are_read_by_their_type(cli: Command, digits: Run) -> None:
    assert cli("sample", "toy", "n=2", "mode=1", "spread=0.5").code == 0


def test_a_model_without_free_options_names_those_it_has(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Plain(jnp.zeros(2))
    monkeypatch.setattr(Run, "builder", lambda self: lambda: model)
    keep(model, load("moons", n=100), Path("runs/toy"))
    result = cli("sample", "toy", "spraed=1")
    assert result.code == 2
    assert result.err.startswith("error: unknown setting 'spraed' (did you mean 'spread'?)")
    refused = cli("sample", "toy", "class=0")
    assert refused.code == 2
    assert refused.err.startswith("error: toy draws from all classes together")
    drawn = cli("sample", "toy", "n=3", "spread=1", "--json")
    assert drawn.code == 0, drawn.err
    assert Path(drawn.last["picture"]).suffix == ".svg"


def test_text_is_written_as_text(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    data = load("shakespeare", window=8)
    model = Letters(jnp.zeros(()))
    monkeypatch.setattr(Run, "builder", lambda self: lambda: model)
    keep(model, data, Path("runs/toy"))
    result = cli("sample", "toy", "n=2", "prompt=12", "out=o")
    assert result.code == 0, result.err
    line = "".join(data.schema.tokens[2:7])
    assert Path("o/samples.txt").read_text() == f"{line}\n{'-' * 20}\n{line}\n"
    assert result.out == f"{line}\n{'-' * 20}\n{line}\n\nsamples  o/samples.txt\n"
    assert cli("sample", "toy", "n=1", "out=o", "--json").last["samples"] == "o/samples.txt"


def test_a_model_that_cannot_sample_says_what_it_can(cli: Command, trained: Path) -> None:
    result = cli("sample", "toy", "n=4")
    assert result.code == 2
    assert result.err == (
        "error: mlp does not generate examples\n       it can be scored: chainrule score toy\n"
    )


def test_a_place_that_cannot_be_written_ends_with_exit_code_5(
    cli: Command, digits: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    result = cli("sample", "toy", "out=o")
    assert result.code == 5
    assert "the disk is full" in result.err


@pytest.fixture(scope="module")
def _text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = load("shakespeare", window=8)
    model = models.build("ngram", data, order=2)
    return fit(model, data, run=tmp_path_factory.mktemp("runs") / "toy", steps=4, batch=8).path


@pytest.fixture
def text(cli: Command, _text: Path) -> Run:
    """A run of a model of text, in ./runs."""
    return Run.open(shutil.copytree(_text, "runs/toy"))


def test_a_text_is_shown_as_it_is_written_and_is_the_sample(cli: Command, text: Run) -> None:
    result = cli("sample", "toy", "prompt=ROMEO", "length=12", "temperature=0.5", "seed=3", "out=o")
    assert result.code == 0, result.err
    drawn = text.sample(1, key=random.key(3, "sample"), prompt="ROMEO", length=12, temperature=0.5)
    (expected,) = passages(text.schema, drawn.astype(int))
    assert expected.startswith("ROMEO")
    assert result.out == f"{expected}\n\nsamples  o/samples.txt\n"
    assert Path("o/samples.txt").read_text() == expected + "\n"


def test_machines_get_an_object_for_every_symbol(cli: Command, text: Run) -> None:
    result = cli("sample", "toy", "prompt=ROMEO", "length=5", "out=o", "--json")
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert len(lines) == 6
    assert set(lines[0]) == {"token", "text", "log_prob", "alternatives", "per_second"}
    assert Path("o/samples.txt").read_text() == "ROMEO" + "".join(piece["text"] for piece in lines[:5]) + "\n"
    assert lines[-1]["samples"] == "o/samples.txt"
    assert lines[-1]["n"] == 1


def test_several_texts_and_beams_are_written_when_they_are_complete(cli: Command, text: Run) -> None:
    shown = cli("sample", "toy", "n=3", "length=4", "out=o")
    assert shown.code == 0, shown.err
    first = Path("o/samples.txt").read_text()
    assert len(first.split("-" * 20)) == 3
    assert shown.out == f"{first}\nsamples  o/samples.txt\n", "all of them are shown"
    result = cli("sample", "toy", "prompt=RO", "length=4", "beams=3", "out=o", "--json")
    assert result.code == 0, result.err
    found = result.last["hypotheses"]
    assert [set(one) for one in found] == [{"text", "log_prob", "rank"}] * 3
    assert Path("o/samples.txt").read_text() == "RO" + found[0]["text"] + "\n"
    assert Path("o/samples-1.txt").read_text() == first, "what was drawn before is kept"


def test_prompts_of_a_file_are_met_with_everything_else(cli: Command, text: Run) -> None:
    Path("prompts.txt").write_text("RO\n\nJUL\n")
    how = ["length=3", "seed=1", "repetition=1.2", "bias=e=1,#3=-2", 'banned=["z", "q"]']
    for more, n in (([], 2), (["beams=3"], 2)):
        result = cli("sample", "toy", "prompts=prompts.txt", f"n={n}", *how, *more, "out=o", "--json")
        assert result.code == 0, result.err
        found = result.last["texts"]
        assert [one[:2] for one in found] == ["RO", "RO", "JU", "JU"]
        for prompt, own in (("RO", found[:2]), ("JUL", found[2:])):
            alone = cli("sample", "toy", f"prompt={prompt}", f"n={n}", *how, *more, "out=o", "--json")
            assert alone.last["texts"] == own
    assert "leave one out" in cli("sample", "toy", "prompt=a", "prompts=prompts.txt").err
    assert "there is no such file" in cli("sample", "toy", "prompts=none.txt").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["temperature=-1"], "error: temperature=-1: temperature must be at least 0"),
        (["temperature=hot"], "error: temperature=hot: temperature must be a number"),
        (["temprature=1"], "error: unknown setting 'temprature' (did you mean 'temperature'?)"),
        (["prompt=Ω"], "error: the text holds characters that the tokenizer does not know: 'Ω'"),
    ],
)
def test_a_mistake_about_a_text_is_told_before_anything_is_written(
    cli: Command, text: Run, words: list[str], message: str
) -> None:
    result = cli("sample", "toy", *words, "out=o")
    assert result.code == 2
    assert result.err.startswith(message)
    assert result.out == ""
    assert not Path("o").exists()


def test_a_text_is_scored_with_its_stride(cli: Command, text: Run) -> None:
    metrics = cli("score", "toy", "stride=8", "--json").last["metrics"]
    assert metrics["stride"]["value"] == 8
    assert metrics["bits_per_character"]["value"] == pytest.approx(
        metrics["nats_per_token"]["value"] / np.log(2)
    )
    assert metrics["nats_per_token"]["stderr"] > 0
    refused = cli("score", "toy", "stride=9")
    assert refused.code == 2
    assert "use a stride from 1 (slow, exact) to 8 (fast)" in refused.err
    assert "stride must be a whole number" in cli("score", "toy", "stride=x").err


@pytest.mark.parametrize(("length", "stride"), [(3, 2), (9, 4), (40, 1), (40, 4), (40, 8)])
def test_a_text_of_ones_own_is_scored_every_symbol_once(
    cli: Command, text: Run, length: int, stride: int
) -> None:
    said = ("To be, or not to be: that is the question. " * 2)[:length]
    result = cli("score", "toy", f"text={said}", f"stride={min(stride, length - 1)}", "--json")
    assert result.code == 0, result.err
    found = result.last["metrics"]
    ids = text.model.tokenizer.encode(said)
    size = min(8, len(ids) - 1)
    assert found["stride"] == {"value": min(stride, size), "unit": f"of {size} tokens", "stderr": None}
    nats, judged = 0.0, 1
    for end in [*range(size, len(ids) - 1, min(stride, size)), len(ids) - 1]:
        own = np.asarray(text.model.surprisal(jnp.asarray(ids[end - size : end + 1])[None]), np.float64)[0]
        nats, judged = nats + own[judged - end - 1 :].sum(), end + 1
    assert found["tokens"]["value"] == len(ids) - 1
    assert found["nats_per_token"]["value"] == pytest.approx(nats / (len(ids) - 1), rel=1e-5)
    assert found["bits_per_byte"]["value"] == pytest.approx(nats / np.log(2) / (len(ids) - 1), rel=1e-5)


def test_what_is_no_text_to_score_is_refused(cli: Command, text: Run) -> None:
    assert "give a longer text" in cli("score", "toy", "text=T").err
    assert "text: it is empty" in cli("score", "toy", "text=").err
    assert "does not know: 'Ω'" in cli("score", "toy", "text=aΩ").err
    assert "give one of the two" in cli("score", "toy", "text=To be", "data=shakespeare").err


def test_a_new_sampler_file_is_known_to_the_command_line(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_sampler(tmp_path, monkeypatch)
    data = load("moons", n=100)
    fit(models.build("diffusion", data, width=8, depth=1), data, run="runs/moons", steps=2, batch=8)
    assert cli("sample", "moons", "n=3", "sampler=jump", "share=0", "clip=none", "out=o").code == 0
    drawn = arrays("o/samples.npz")["samples"]
    assert (drawn == drawn[:1]).all()
    refused = cli("sample", "moons", "n=3", "share=0")
    assert refused.err.startswith(
        "error: sampler 'ddim' does not take share; it is an option of sampler=jump"
    )
    shown = cli("models", "show", "diffusion").out
    assert "Sampling: sampler jump, with sampler=jump." in shown
    assert "of the estimate that is kept" in shown


def test_an_anagram_is_shown_in_both_views_and_rows_come_with_the_names_of_their_columns(
    cli: Command,
) -> None:
    images = load("digits")
    kept(models.build("diffusion", images, width=4, depth=1), images, run="runs/anagram", origin={})
    words = ("class=6", "view=rotate(180)", "other=9", "n=3", "steps=2", "out=o")
    shown: list[Images] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chainrule.report.save", lambda picture, *_: shown.append(picture) or Path("o/p.png"))
        assert cli("sample", "anagram", *words).code == 0
    (picture,) = shown
    assert list(picture.labels) == ["6", "9, rotate(180)"] * 3
    np.testing.assert_allclose(picture.images[1], np.rot90(picture.images[0], 2), atol=1e-6)
    assert "ddim in 2 steps, guidance 2" in picture.title
    Path("people.csv").write_text(
        "height,sex\n" + "\n".join(f"{150 + i},{'m' if i % 3 else 'f'}" for i in range(40))
    )
    rows = load("people.csv", target="none")
    kept(models.build("diffusion", rows, width=4, depth=1), rows, run="runs/people", origin={})
    Path("row.csv").write_text("height,sex\n,f\n")
    result = cli("sample", "people", "inpaint=row.csv", "n=3", "steps=2", "out=o", "--json")
    assert result.code == 0, result.err
    lines = Path(result.last["table"]).read_text().splitlines()
    assert lines[0] == "height,sex"
    assert {line.split(",")[1] for line in lines[1:]} == {"f"}
