"""`chainrule compress` and `chainrule decompress`."""

import bz2
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chainrule import models
from chainrule.data import load
from chainrule.train import Run, fit

from .conftest import Command

pytest.importorskip("constriction", reason="`pip install 'chainrule[compress]'` brings the coders")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Run:
    data = load("binary-digits")
    model = models.build("vae", data, latent=4, width=16, depth=1)
    return fit(model, data, run=tmp_path_factory.mktemp("runs") / "toy", steps=30)


@pytest.fixture
def photos(cli: Command, small: Run) -> Path:
    """Some test images of a small run, in a file beside it."""
    shutil.copytree(small.path, Path("runs", "toy"))
    np.save("photos.npy", np.rint(np.asarray(small.data.test.x[:40])).astype(np.uint8))
    return Path("photos.npy")


def test_a_file_becomes_short_and_comes_back(cli: Command, photos: Path) -> None:
    result = cli("compress", "toy", "photos.npy")
    assert result.code == 0, result.err
    assert "photos.npy.crz" in result.out
    assert "read back, equal to the last bit" in result.out
    assert "chainrule (toy)" in result.out
    assert "PNG" in result.out
    before = photos.read_bytes()
    photos.unlink()
    assert cli("decompress", "photos.npy.crz").out.split() == ["written", "photos.npy"]
    assert photos.read_bytes() == before
    again = cli("decompress", "photos.npy.crz")
    assert (again.code, "is there already" in again.err) == (2, True)


@pytest.mark.filterwarnings("default:zstd is left out")
def test_a_compressor_that_fails_does_not_end_in_an_error(
    cli: Command, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("bin").mkdir()
    Path("bin", "zstd").write_text("#!/bin/sh\nexit 3\n")
    Path("bin", "zstd").chmod(0o755)
    monkeypatch.setenv("PATH", str(Path("bin").resolve()), prepend=":")
    result = cli("compress", "toy", "photos.npy")
    assert result.code == 0, result.err
    assert "zstd is left out of the comparison" in result.err
    assert "zstd" not in result.out
    assert "gzip" in result.out


def test_images_come_back_as_images_and_what_is_left_out_is_said(cli: Command, photos: Path) -> None:
    pictures = 255 * np.load(photos)[:3, ..., 0]
    Path("album", "old").mkdir(parents=True)
    for name, pixels in zip(["a.png", "b.bmp", "old/a.png"], pictures, strict=True):
        Image.fromarray(pixels).save(Path("album", name))
    Path("album", "notes.txt").write_text("mine")
    for hidden in (".c.png", ".old/c.png"):
        Path("album", hidden).parent.mkdir(exist_ok=True)
        shutil.copy(Path("album", "a.png"), Path("album", hidden))
    result = cli("compress", "toy", "album", "compare=false")
    assert "left out 3 files, no images or hidden: notes.txt, .c.png, .old/c.png" in result.err
    assert cli("decompress", "album.crz", "out=again").code == 0
    found = [np.asarray(Image.open(Path("again", name))) for name in ("a.png", "b.png", "old/a.png")]
    np.testing.assert_array_equal(found, pictures)
    found = cli("compress", "toy", "album/b.bmp", "--json").last
    assert (found["examples"], found["left_out"]) == (1, [])
    assert cli("decompress", "b.bmp.crz", "out=b.jpg").err.startswith(
        "error: out=b.jpg: an image comes back as PNG"
    )
    assert cli("decompress", "b.bmp.crz").out.split() == ["written", "b.png"]
    np.testing.assert_array_equal(np.asarray(Image.open("b.png")), pictures[1])


def test_what_pixels_alone_would_lose_is_refused(cli: Command, photos: Path) -> None:
    first, second = (Image.fromarray(255 * pixels) for pixels in np.load(photos)[:2, ..., 0])
    first.save("pages.tiff", save_all=True, append_images=[second])
    first.save("glass.png", transparency=0)
    turned = Image.Exif()
    turned[0x0112] = 6
    first.save("turned.png", exif=turned)
    Path("damaged.pgm").write_bytes(b"P5\n8 8\n999999\n")
    Path("drawn.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n")
    os.mkfifo("pipe.png")
    for name, why in [
        ("turned.png", "shown turned"),
        ("damaged.pgm", "cannot be read as an image: maxval"),
        ("drawn.eps", "read are PNG, JPEG"),
        ("pages.tiff", "holds 2 pictures"),
        ("glass.png", "transparent"),
        ("pipe.png", "is a pipe"),
    ]:
        result = cli("compress", "toy", name)
        assert (result.code, why in result.err) == (3, True), result.err
    np.save("minus.npy", -np.zeros((1, 8, 8, 1), np.float32))
    result = cli("compress", "toy", "minus.npy")
    assert "the value -0.0 is none of the 2 levels" in result.err
    Path("junk.npy").write_bytes(b"junk")
    assert "holds no array of numbers" in cli("compress", "toy", "junk.npy").err


def test_machines_get_the_numbers_and_splits_need_no_file(cli: Command, photos: Path) -> None:
    found = cli("compress", "toy", "split=test", "n=20", "out=a.crz", "--json").last
    assert found["examples"] == 20
    assert found["file_bytes"] == Path("a.crz").stat().st_size
    assert found["bits"]["returned"] < 0
    assert found["bits_per_entry"] == pytest.approx(found["bound_bits_per_entry"], rel=0.1)
    assert cli("decompress", "a.crz", "out=a.npy", "--json").last == {"path": "a.npy"}
    several = cli(
        "compress", "toy", "split=test", "n=20", "out=b.crz", "lanes=2", "cells=equal-mass", "--json"
    ).last
    assert several["initial_bits"] >= 2 * 32
    assert cli("decompress", "b.crz", "out=b.npy").code == 0
    np.testing.assert_array_equal(np.load("b.npy"), np.load("a.npy"))
    assert np.load("a.npy").shape == (20, 8, 8, 1)


def test_a_split_of_a_text_comes_back_as_text(cli: Command, unreported: None) -> None:
    Path("rhyme.txt").write_text("three blind mice, see how they run\n" * 40)
    assert cli("train", "ngram", "data=rhyme.txt", "run=rhyme").code == 0
    report = cli("compress", "rhyme", "split=test", "n=50", "out=a.crz", "--json").last
    # The coder adds what is left of its last words.
    assert 0 <= report["bits_per_entry"] - report["bound_bits_per_entry"] < 64 / 50
    text = Path("rhyme.txt").read_bytes()
    report = cli("compress", "rhyme", "rhyme.txt", "verify=false", "--json").last
    assert (report["raw_bytes"], report["others"]["bz2 -9"]) == (len(text), len(bz2.compress(text, 9)))
    assert cli("decompress", "a.crz", "out=again.txt").code == 0
    found = Path("again.txt").read_text()
    assert len(found) == 50
    assert found in Path("rhyme.txt").read_text()
    assert cli("decompress", "a.crz").out.split() == ["written", "rhyme-test.txt"]
    assert Path("rhyme-test.txt").read_text() == found
    np.save("tokens.npy", np.arange(10, dtype=np.uint16))
    assert cli("compress", "rhyme", "tokens.npy", "out=b.crz", "lanes=2", "rows=3").code == 0
    assert cli("decompress", "b.crz", "out=b.txt").code == 0
    assert cli("decompress", "b.crz", "out=b.npy").code == 0
    np.testing.assert_array_equal(np.load("b.npy"), np.arange(10))
    assert len(Path("b.txt").read_text()) == 10


def test_damage_is_said_and_nothing_is_written(cli: Command, photos: Path) -> None:
    cli("compress", "toy", "photos.npy", "out=a.crz")
    blob = bytearray(Path("a.crz").read_bytes())
    blob[-60] ^= 4
    Path("a.crz").write_bytes(blob)
    result = cli("decompress", "a.crz", "out=b.npy")
    assert result.code == 3
    assert "a.crz is damaged: the checksum of its segment 1 is another (byte" in result.err
    Path("a.crz").write_bytes(blob[:-70])
    assert "it was cut off" in cli("decompress", "a.crz", "out=b.npy").err
    assert not Path("b.npy").exists()
    assert not list(Path().glob(".*tmp"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["toy"], "compress wants RUN and FILE-OR-FOLDER"),
        (["toy", "nothing.npy"], "nothing.npy does not exist"),
        (["toy", "photos.npy", "lanes=0"], "lanes must be a whole number of at least 1"),
        (["toy", "photos.npy", "lanes=300"], "there can be 256 lanes at most"),
        (["toy", "photos.npy", "rows=1000000"], "65,536 rows at most go through the networks together"),
        (["toy", "photos.npy", "cells=odd"], "cells are even or equal-mass"),
        (["toy", "photos.npy", "stpe=1"], "stpe"),
        (["toy", "photos.npy", "out=no/where.crz"], "the folder no does not exist"),
    ],
)
def test_mistakes_are_answered(cli: Command, photos: Path, words: list[str], message: str) -> None:
    result = cli("compress", *words)
    assert result.code in (2, 3)
    assert message in result.err


@pytest.mark.slow
def test_another_process_with_one_thread_reads_the_same_bytes_or_says_why_not(
    cli: Command, photos: Path
) -> None:
    assert cli("compress", "toy", "photos.npy", "out=a.crz").code == 0
    command = [sys.executable, "-m", "chainrule", "decompress", "a.crz", "out=b.npy"]
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    ended = subprocess.run(
        command, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        assert "computes different probabilities" in ended.stderr
    else:
        assert Path("b.npy").read_bytes() == photos.read_bytes()
