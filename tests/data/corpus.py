"""Small files, sound and broken, made on the fly."""

import gzip
import io
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image


def picture(seed: int = 0, size: tuple[int, int] = (6, 5), mode: str = "RGB") -> Image.Image:
    """A picture of random pixels; `size` is (height, width)."""
    channels = {"L": (), "LA": (2,), "RGB": (3,), "RGBA": (4,), "CMYK": (4,)}[mode]
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, *channels), dtype=np.uint8)
    return (
        Image.fromarray(pixels, mode=None if mode in ("L", "RGB") else mode)
        if mode != "CMYK"
        else _cmyk(pixels)
    )


def _cmyk(pixels: np.ndarray) -> Image.Image:
    return Image.merge("CMYK", [Image.fromarray(pixels[..., i]) for i in range(4)])


def packed(image: Image.Image, form: str = "PNG") -> bytes:
    """The bytes of an image file."""
    out = io.BytesIO()
    image.save(out, form)
    return out.getvalue()


def packed_webp(image: Image.Image) -> bytes:
    """The bytes of a WebP file that keeps every pixel."""
    out = io.BytesIO()
    image.save(out, "WEBP", lossless=True)
    return out.getvalue()


def write(path: Path, data: bytes) -> Path:
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def pets(folder: Path, per_class: int = 10, mode: str = "RGB") -> Path:
    """A sound folder of images in two classes."""
    for i in range(per_class):
        for j, name in enumerate(("cats", "dogs")):
            write(folder / name / f"{i:02d}.png", packed(picture(100 * j + i, mode=mode)))
    return folder


def sixteen_bit() -> bytes:
    """A PNG file with 16 bits per channel in RGB, which Pillow would cut to 8 without a word."""
    import zlib

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 5, 6, 16, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(5 * 6) for _ in range(6)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def idx(array: np.ndarray) -> bytes:
    """The bytes of an IDX file of 8-bit numbers."""
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.astype(np.uint8).tobytes()
    )


def mnist_like(
    folder: Path, train: int = 60, test: int = 20, compress: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """A folder with the four files of MNIST, small; returns all images and labels, training first."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (train + test, 4, 3), dtype=np.uint8)
    labels = np.arange(train + test) % 5
    for stem, rows in (("train", slice(0, train)), ("t10k", slice(train, None))):
        for name, array in (
            (f"{stem}-images-idx3-ubyte", images[rows]),
            (f"{stem}-labels-idx1-ubyte", labels[rows]),
        ):
            data = idx(array)
            write(
                folder / (name + ".gz" if compress else name),
                gzip.compress(data, mtime=0) if compress else data,
            )
    return images, labels


def csv(path: Path, rows: Sequence[Sequence[object]]) -> Path:
    """A comma-separated file."""
    return write(path, "".join(",".join(str(cell) for cell in row) + "\n" for row in rows).encode())


def flowers(path: Path, rows: int = 40) -> Path:
    """A sound table: two numbers, a word, a class."""
    rng = np.random.default_rng(0)
    body = [
        [
            f"{rng.normal(5, 2):.3f}",
            f"{rng.normal(100, 30):.2f}",
            ["red", "white"][i % 2],
            ["iris", "rose"][i // 2 % 2],
        ]
        for i in range(rows)
    ]
    return csv(path, [["length", "weight", "colour", "species"], *body])
