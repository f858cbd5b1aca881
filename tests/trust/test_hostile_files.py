"""Files and folders of data and weights from a stranger: refused or left out by name, within time and memory.

`python -m tests.trust.test_hostile_files FOLDER` prints the table of files and answers.
"""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from chainrule import data, models
from chainrule.core.errors import ChainruleError
from chainrule.data.text import tokenizers
from tests.data import corpus

WIDTH, VOCAB = 8, 3
LETTERS = tokenizers.Character(("a", "b", "c"))


def gpt2(layers: int = 1, **changes: Any) -> dict[str, np.ndarray]:
    """The arrays of a file in GPT-2's style; a change of None leaves one out."""
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    arrays = {"wte.weight": drawn(VOCAB, WIDTH), "wpe.weight": drawn(16, WIDTH)}
    arrays |= {"ln_f.weight": drawn(WIDTH), "ln_f.bias": drawn(WIDTH)}
    for i in range(layers):
        for name, inputs, outputs in (
            ("attn.c_attn", WIDTH, 3 * WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", WIDTH, 4 * WIDTH),
            ("mlp.c_proj", 4 * WIDTH, WIDTH),
        ):
            arrays |= {f"h.{i}.{name}.weight": drawn(inputs, outputs), f"h.{i}.{name}.bias": drawn(outputs)}
        for name in ("ln_1", "ln_2"):
            arrays |= {f"h.{i}.{name}.weight": drawn(WIDTH), f"h.{i}.{name}.bias": drawn(WIDTH)}
    return {name: array for name, array in (arrays | changes).items() if array is not None}


def spoilt(name: str, change: Callable[[np.ndarray], np.ndarray]) -> dict[str, np.ndarray]:
    arrays = gpt2()
    return {**arrays, name: change(arrays[name])}


def with_value(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        changed = array.copy()
        changed.flat[1] = value
        return changed

    return change


INWARD = "h.0.attn.c_attn.weight"
TINY = np.ones(1, np.float32)
WEIGHTS: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "layer number a million": (gpt2(**{"h.1000000.ln_1.weight": TINY}), "unused: h.1000000.ln_1.weight"),
    "120 layers by name only": (
        gpt2(**{f"h.{i}.mlp.c_fc.weight": np.ones((1, 1), np.float32) for i in range(1, 120)}),
        "does not fit",
    ),
    "a layer that is not there": (gpt2(**{"h.3.ln_1.weight": TINY}), "unused: h.3.ln_1.weight"),
    "a width of two million": (
        {**gpt2(), "wte.weight": np.ones((3, 2_000_000), np.float32)},
        "numbers; the network that its names describe has",
    ),
    "NaN": (spoilt(INWARD, with_value(np.nan)), f"{INWARD} holds 1 of 192 values that are not finite"),
    "infinity": (spoilt("wte.weight", with_value(np.inf)), "1 of 24 values that are not finite"),
    "64-bit numbers beyond 32 bits": (
        spoilt("ln_f.bias", lambda array: array.astype(np.float64) * 1e300),
        "values that are not finite",
    ),
    "whole numbers": (spoilt(INWARD, lambda array: array.astype(np.int32)), "holds int32 instead of"),
    "bytes": (spoilt(INWARD, lambda array: array.astype(np.uint8)), "holds uint8 instead of"),
    "true and false": (spoilt(INWARD, lambda array: array > 0), "holds bool instead of"),
    "an empty matrix": (
        gpt2(**{"wte.weight": np.ones((3, 0), np.float32)}),
        "wte.weight has the shape (3, 0)",
    ),
    "no rows": (gpt2(**{"wte.weight": np.ones((0, 8), np.float32)}), "wte.weight has the shape (0, 8)"),
    "a vector for a matrix": (gpt2(**{"wte.weight": TINY}), "wte.weight has the shape (1,)"),
    "an empty vector": (gpt2(**{"ln_f.bias": np.ones(0, np.float32)}), "ln_f.bias has the shape (0,)"),
    "no array at all": ({}, "holds no transformer"),
}


def answer_to_weights(folder: Path, name: str) -> str:
    """What is said about a hostile file of weights."""
    file = folder / "weights.safetensors"
    safetensors.numpy.save_file(WEIGHTS[name][0], file)
    return complaint(lambda: models.open_weights("gpt", file, LETTERS, heads=2))


def complaint(work: Callable[[], object]) -> str:
    try:
        work()
    except ChainruleError as error:
        return error.message
    return "read"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(path.name)
    finally:
        os.chdir(here)


def link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


ENTRIES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a pipe": ("cats/pipe.png", pipe, "pets/cats/pipe.png (not a file: it is a pipe)"),
    "a socket": ("cats/socket.png", bound, "pets/cats/socket.png (not a file: it is a socket)"),
    "a link to a device": (
        "cats/zero.png",
        link("/dev/zero"),
        "pets/cats/zero.png: a link to /dev/zero, which is outside",
    ),
    "a link to the root": ("all", link("/"), "pets/all: a link to /, which is outside of the folder"),
    "a link to a file elsewhere": (
        "cats/x.png",
        link("/etc/passwd"),
        "pets/cats/x.png: a link to /etc/passwd",
    ),
    "a link to itself": ("cats/self.png", link("self.png"), "pets/cats/self.png (unreadable"),
    "a link to nothing": ("cats/gone.png", link("nowhere.png"), "pets/cats/gone.png (unreadable"),
    "a link round in a circle": ("cats/loop", link(".."), "read"),
    "a pipe that is no picture": ("cats/pipe", pipe, "read"),
}


def answer_to_folder(folder: Path, name: str) -> str:
    """What is said about a folder of images with a hostile entry."""
    path, make, _ = ENTRIES[name]
    corpus.pets(folder / "pets")
    make(folder / "pets" / path)
    return complaint(lambda: data.load(folder / "pets"))


NAMED: dict[str, tuple[str, str]] = {
    "a pipe for a table": ("pipe.csv", "is a pipe: data are read from files"),
    "a pipe for pairs": ("pipe.tsv", "is a pipe: data are read from files"),
    "a pipe for arrays": ("pipe.npz", "is a pipe: data are read from files"),
    "a pipe for a text": ("pipe.txt", "is a pipe: data are read from files"),
    "a device": ("/dev/zero", "is a device: data are read from files"),
}


def answer_to_name(folder: Path, name: str) -> str:
    """What is said about a special file named as data."""
    path = folder / NAMED[name][0]
    if not path.exists():
        pipe(path)
    return complaint(lambda: data.load(path))


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_are_none_are_refused_by_name(tmp_path: Path, name: str) -> None:
    assert WEIGHTS[name][1] in answer_to_weights(tmp_path, name)


def test_good_weights_are_read(tmp_path: Path) -> None:
    safetensors.numpy.save_file(gpt2(layers=2), tmp_path / "w.safetensors")
    model: Any = models.open_weights("gpt", tmp_path / "w.safetensors", LETTERS, heads=2)
    assert len(model.blocks) == 2


@pytest.mark.parametrize("name", ENTRIES)
def test_special_files_and_links_in_a_folder_are_named_and_never_opened(tmp_path: Path, name: str) -> None:
    assert ENTRIES[name][2] in answer_to_folder(tmp_path, name)


def test_what_cannot_be_opened_can_be_left_out_and_links_can_be_trusted(tmp_path: Path) -> None:
    folder = corpus.pets(tmp_path / "pets")
    pipe(folder / "cats" / "pipe.png")
    assert data.load(folder, bad="skip").skipped == (("pets/cats/pipe.png", "not a file: it is a pipe"),)
    (folder / "cats" / "pipe.png").unlink()
    (tmp_path / "photo.png").write_bytes(next(iter(sorted(folder.rglob("*.png")))).read_bytes())
    (folder / "dogs" / "linked.png").symlink_to(tmp_path / "photo.png")
    assert "which is outside of the folder" in complaint(lambda: data.load(folder))
    trusted = data.load(folder, links="follow")
    assert data.load(**trusted.source).hash == trusted.hash


@pytest.mark.parametrize("name", NAMED)
def test_special_files_are_no_data(tmp_path: Path, name: str) -> None:
    assert NAMED[name][1] in answer_to_name(tmp_path, name)


def test_special_files_are_no_tokenizers_or_vectors(tmp_path: Path) -> None:
    pipe(tmp_path / "pipe.json")
    assert "is a pipe" in complaint(lambda: tokenizers.read(tmp_path / "pipe.json"))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("to be or not to be\n" * 40)
    pipe(tmp_path / "texts" / "b.txt")
    assert "texts/b.txt (not a file" in complaint(lambda: data.load(tmp_path / "texts", window=8))


def main(folder: Path) -> None:
    """The table of files and answers."""
    for title, names, answer in (
        ("weights", WEIGHTS, answer_to_weights),
        ("in a folder of images", ENTRIES, answer_to_folder),
        ("named as data", NAMED, answer_to_name),
    ):
        print(f"\n{title}")
        for number, name in enumerate(names):
            location = folder / f"{title}-{number}"
            location.mkdir(parents=True)
            print(f"  {name:<32}{answer(location, name)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
