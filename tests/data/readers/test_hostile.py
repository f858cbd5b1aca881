"""Readers of bytes of unknown origin either read them or refuse them by name; nothing else ever escapes."""

import contextlib
import io
import tempfile
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.core.errors import ChainruleError
from chainrule.data import check, load
from tests.data import corpus
from tests.tiers import tiers


def _npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.arange(60.0).reshape(20, 3))
    return out.getvalue()


def _npz() -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, x=np.arange(60.0).reshape(20, 3), y=np.arange(20) % 2)
    return out.getvalue()


def _wav() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((2, 2, 8000, 0, "NONE", ""))
        file.writeframes(np.arange(6000, dtype="<i2").tobytes())
    return out.getvalue()


SOUND = {
    "a.npy": _npy(),
    "a.npz": _npz(),
    "a.wav": _wav(),
    "a-idx3-ubyte": corpus.idx(np.arange(240).reshape(20, 4, 3) % 256),
    "a.csv": b"a,b,c\n" + b"".join(b"%d,%d.5,%s\n" % (i, i, b"xy"[i % 2 : i % 2 + 1]) for i in range(20)),
    "a.tsv": "".join(f"Wörter {i}\tmots {i}\n" for i in range(20)).encode(),
    "a.txt": "Wörter und Wörter\n".encode() * 200,
    "a.jsonl": b'{"text": "words"}\n' * 200,
    "folder/0.png": corpus.packed(corpus.picture()),
    "folder/0.jpg": corpus.packed(corpus.picture(), "JPEG"),
}
REPEATS = ("a.tsv", "a.txt", "a.jsonl", "folder/0.jpg")
"""Of a kind that another one stands for."""


def attempt(name: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = corpus.write(Path(folder) / name, data)
        source = path.parent if name.startswith("folder/") else path
        for i in range(3 * name.startswith("folder/")):
            corpus.write(path.with_name(f"sound{i}.png"), SOUND["folder/0.png"])
        for bad in ("error", "skip"):
            with contextlib.suppress(ChainruleError):
                load(source, bad=bad)
        with contextlib.suppress(ChainruleError):
            check(source)


@pytest.mark.parametrize("name", tiers(SOUND, slow=REPEATS))
@settings(max_examples=40)
@given(
    changes=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8
    )
)
def test_changed_bytes_are_read_or_refused(name: str, changes: list[tuple[float, int]]) -> None:
    data = bytearray(SOUND[name])
    for share, value in changes:
        data[int(share * len(data))] = value
    attempt(name, bytes(data))


@pytest.mark.parametrize("name", tiers(SOUND, slow=REPEATS))
@settings(max_examples=25)
@given(cut=st.floats(0, 1), tail=st.binary(max_size=40))
def test_files_cut_off_and_continued_with_noise_are_read_or_refused(
    name: str, cut: float, tail: bytes
) -> None:
    attempt(name, SOUND[name][: int(cut * len(SOUND[name]))] + tail)


@pytest.mark.parametrize("name", tiers(SOUND, slow=REPEATS))
@settings(max_examples=25)
@given(data=st.binary(max_size=300))
def test_noise_is_read_or_refused(name: str, data: bytes) -> None:
    attempt(name, data)
