"""Small files that unpack to something huge are refused by name, before they do harm."""

import gzip
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import check, load
from chainrule.data.loading import bounded
from tests.data import corpus


def declared_png(width: int, height: int) -> bytes:
    """A PNG file that declares a size and holds almost nothing."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(("width", "height"), [(9000, 9000), (12000, 12000), (60000, 60000)])
def test_an_image_of_too_many_pixels_is_not_decoded(tmp_path: Path, width: int, height: int) -> None:
    folder = corpus.pets(tmp_path / "pets")
    corpus.write(folder / "cats" / "bomb.png", declared_png(width, height))
    bad = check(folder).problems[0]
    assert (bad.kind, bad.first) == ("too many pixels", "pets/cats/bomb.png")


def test_the_limit_of_pixels_is_named_and_can_be_moved(tmp_path: Path) -> None:
    folder = corpus.pets(tmp_path / "pets")
    with pytest.raises(DataError, match=r"too many pixels: 5×6; the limit is max_pixels=29"):
        load(folder, max_pixels=29)
    data = load(folder, max_pixels=30)
    assert data.source["max_pixels"] == 30
    assert load(**data.source).hash == data.hash
    assert "max_pixels" not in load(folder).source


def test_images_that_do_not_fit_the_memory_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"take 1,800 bytes in memory, more than max_bytes=1,000\n.*data.max_bytes=1800"
    ):
        load(corpus.pets(tmp_path / "pets"), max_bytes=1000)


def test_a_folder_of_too_many_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"more than max_files=19 files\n.*data.max_files=190"):
        load(corpus.pets(tmp_path / "pets"), max_files=19)


def test_a_gzip_bomb_is_refused_by_its_ratio(tmp_path: Path) -> None:
    shape = (20000, 40, 30)
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", *shape)
    path = corpus.write(tmp_path / "a-idx3-ubyte.gz", gzip.compress(header + bytes(20000 * 40 * 30)))
    with pytest.raises(
        DataError,
        match=r"a-idx3-ubyte.gz: unpacks to more than max_ratio=200 times its size\n.*max_ratio=1000",
    ):
        load(path)
    with pytest.raises(DataError, match=r"more than max_bytes=1,000,000 bytes in memory"):
        load(path, max_bytes=1_000_000)
    assert check(path, max_ratio=2000).ok


def test_a_zip_bomb_is_refused_by_ratio_size_and_number_of_members(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x=np.zeros((3000, 3000), np.float32))
    with pytest.raises(DataError, match=r"bomb.npz\[x.npy\]: unpacks to more than max_ratio=200 times"):
        load(path)
    with pytest.raises(DataError, match="more than max_bytes=1,000 bytes in memory"):
        load(path, max_bytes=1000)
    assert check(path, max_ratio=2000).ok
    np.savez(tmp_path / "many.npz", **{f"a{i}": np.zeros(1) for i in range(65)})
    with pytest.raises(DataError, match=r"65 members, more than max_files=64\n.*data.max_files=65"):
        load(tmp_path / "many.npz")


def test_a_zip_file_that_lies_about_its_sizes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lie.npz"
    np.savez_compressed(path, x=np.zeros((300, 300)))
    with zipfile.ZipFile(path) as archive:
        true = archive.getinfo("x.npy").file_size
    data = path.read_bytes().replace(struct.pack("<I", true), struct.pack("<I", true // 2))
    corpus.write(path, data)
    with pytest.raises(DataError, match="damaged zip file"):
        load(path)


def test_a_plain_file_is_refused_by_its_size_without_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sparse.txt"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(DataError, match="more than max_bytes=4,294,967,296 bytes in memory"):
        load(path)


def test_an_array_that_declares_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lie.npy"
    np.save(path, np.zeros((10, 2)))
    corpus.write(path, path.read_bytes().replace(b"(10, 2)", b"(99, 2)"))
    with pytest.raises(DataError, match=r"declares \(99, 2\) numbers of 8 bytes but holds 160 bytes"):
        load(path)
    corpus.write(path, path.read_bytes().replace(b"(99, 2)", b"(9**9,)"))
    with pytest.raises(DataError, match="the header of the array cannot be read"):
        load(path)


def test_a_limit_must_be_a_positive_whole_number(tmp_path: Path) -> None:
    with pytest.raises(
        ArgumentError, match="max_pixels=0: max_pixels must be a whole number from 1 to 178956970"
    ):
        load(corpus.pets(tmp_path / "pets"), max_pixels=0)


def test_small_files_may_expand_freely(tmp_path: Path) -> None:
    path = corpus.write(tmp_path / "zeros.gz", gzip.compress(bytes(2**20)))
    assert len(bounded.read(path, "zeros.gz", 2**30, max_ratio=1)) == 2**20


def test_reading_images_leaves_the_limits_of_pillow_alone(tmp_path: Path) -> None:
    before = Image.MAX_IMAGE_PIXELS
    load(corpus.pets(tmp_path / "pets"))
    assert before == Image.MAX_IMAGE_PIXELS
