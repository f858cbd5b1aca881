"""Sequences from files: what FASTA files hold, and what is refused by line."""

import gzip
import os
from pathlib import Path

import pytest

from chainrule.core.errors import DataError
from chainrule.kernels.sequences.files import read_fasta, read_lines


def test_a_fasta_file_is_read_with_its_names(tmp_path: Path) -> None:
    path = tmp_path / "two.fasta"
    path.write_bytes(b"; a remark\r\n>first protein\r\nGATT\r\nacA*\r\n\r\n>second\r\nTA CA\r\n")
    assert read_fasta(path) == (["first protein", "second"], ["GATTACA", "TACA"])
    packed = tmp_path / "two.fasta.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_fasta(packed) == read_fasta(path)


def test_lines_are_sequences_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("gatto\n\ncane è\n", encoding="utf-8")
    assert read_lines(path) == (["line 1", "line 3"], ["gatto", "cane è"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"GATTACA\n", "line 1: letters before the first name"),
        (b">one\nGAT7\n", "line 2: 'GAT7' is not letters alone"),
        (b">one\n>two\nGAT\n", "'one' has no letters"),
        (b"", "empty"),
        (b"; nothing\n", "no sequences"),
        (b">a\nGA\xff\n", "line 2: invalid UTF-8"),
        (b">a\nGA\0T\n", "binary file"),
        (b"\xff\xfe>\x00a\x00", "UTF-16"),
    ],
)
def test_what_is_no_fasta_file_is_refused_by_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.fasta"
    path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_fasta(path)


def test_files_that_are_too_large_or_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.fasta"
    path.write_text(">a\n" + "G" * 100)
    with pytest.raises(DataError, match=r"max_bytes=50 (.|\n)*max_bytes=100"):
        read_fasta(path, max_bytes=50)
    assert len(read_fasta(path, max_bytes=200).sequences[0]) == 100
    with pytest.raises(DataError, match="No such file"):
        read_fasta(tmp_path / "missing.fasta")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="never opened"):
        read_fasta(tmp_path / "pipe")
    bomb = tmp_path / "bomb.fasta.gz"
    bomb.write_bytes(gzip.compress(b">a\n" + b"G" * 2**25))
    with pytest.raises(DataError, match=r"too strongly compressed(.|\n)*unpack the file first"):
        read_fasta(bomb)


def test_names_cannot_move_a_cursor(tmp_path: Path) -> None:
    path = tmp_path / "names.fasta"
    path.write_text(">\x1b[2Jred\nGAT\n")
    assert read_fasta(path).names == ["\\x1b[2Jred"]
