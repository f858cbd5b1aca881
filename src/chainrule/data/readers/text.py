"""Text files: read as characters, made into tokens once the text is divided; an example is a window of tokens.

The alphabet is the set of characters of the whole text, so that every part of it can be encoded.
"""

import codecs
import hashlib
import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chainrule.core.errors import ArgumentError, spell
from chainrule.core.quoting import shell_word
from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO, Option, flag, optional, whole
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader, StreamedText
from chainrule.data.loading.walking import special
from chainrule.data.text import streaming
from chainrule.data.text.tokenizers import KINDS
from chainrule.data.text.windows import WINDOW

# The mark of UTF-32 begins with that of UTF-16, so it is looked for first.
_FOREIGN = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_CODE_POINTS = 0x110000
_LONGEST_LINE = 2**24
_ESCAPED = re.compile(r"[\udc80-\udcff]")
"""What stands for a byte that is no UTF-8."""
_BLANK = re.compile(r"\n(?:[ \t]*\n)+")


def decode(data: bytes, where: str) -> tuple[str, dict[int, Problem], list[Problem]]:
    """Text with its line ends as they are, the problem of each bad line by its number from 1, and notes.

    Bytes that are not UTF-8 are replaced, so that lines can be counted; the caller leaves their lines out.

    >>> text, bad, notes = decode(b"one\\ntw\\xff\\nthree", "numbers.txt")
    >>> bad[2].where, bad[2].reason
    ('numbers.txt line 2', 'invalid UTF-8: byte 6')
    """
    if not data:
        raise Refused("empty", where, "empty file", "give a file with text in it")
    _check_start(data, where)
    if b"\0" in data:
        raise Refused(
            "not text",
            where,
            f"a binary file (first zero byte: byte {data.index(0)})",
            "give plain text in UTF-8; images, tables and arrays are known by the ending of their names",
        )
    marked = data.startswith(codecs.BOM_UTF8)
    notes = [Problem("byte order mark", where, "left out", "note")] if marked else []
    bad = {}
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        offset, remedy = 0, f"if it is Latin-1, {_convert('LATIN1', where)}"
        for number, line in enumerate(data.splitlines(keepends=True), start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                location = f"byte {offset + error.start}"
                bad[number] = Problem("invalid UTF-8", f"{where} line {number}", location, remedy=remedy)
            offset += len(line)
    return text[marked:], bad, notes


def _convert(encoding: str, where: str) -> str:
    return f"convert it: iconv -f {encoding} -t UTF-8 {shell_word(where)} > NEW"


def lines(text: str) -> io.StringIO:
    """The lines of a text with their ends: a new line, a carriage return, or both."""
    return io.StringIO(text, newline="")


def streamed(path: Path, where: str) -> tuple[Iterator[str], dict[int, Problem]]:
    """The lines of a file one after the other, and the problem of each bad one by its number, as they are read.

    As `decode` and `lines`, for a file that need not be in memory as a whole.
    """
    if what := special(path):
        raise Refused("not a file", where, f"it is {what}, which is never opened")
    bad: dict[int, Problem] = {}

    def read() -> Iterator[str]:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), ""), start=1):
                if len(line) == _LONGEST_LINE:
                    detail = f"a line of more than {_LONGEST_LINE:,} characters"
                    raise Refused("not lines", f"{where} line {number}", detail)
                if "\0" in line:
                    raise Refused("not text", where, f"a binary file (first zero byte: line {number})")
                if _ESCAPED.search(line):
                    remedy = f"if it is Latin-1, {_convert('LATIN1', where)}"
                    bad[number] = Problem("invalid UTF-8", f"{where} line {number}", remedy=remedy)
                yield line

    with path.open("rb") as file:
        start = file.read(4)
    if not start:
        raise Refused("empty", where, "empty file", "give a file with text in it")
    _check_start(start, where)
    return read(), bad


def _check_start(start: bytes, where: str) -> None:
    """Refuse other encodings by their marks."""
    for name, marks in _FOREIGN.items():
        if start.startswith(marks):
            raise Refused("not UTF-8", where, f"{name} text; only UTF-8 is read", _convert(name, where))


def encode(text: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Character numbers in the smallest type that holds them, and the characters in the order of their code points.

    >>> numbers, characters = encode("abba")
    >>> numbers.tolist(), characters
    ([0, 1, 1, 0], ('a', 'b'))
    """
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    index = np.zeros(_CODE_POINTS, np.uint32)
    index[codes] = 1
    used = np.flatnonzero(index)
    index[used] = np.arange(len(used), dtype=np.uint32)
    return index.astype(np.min_scalar_type(max(len(used) - 1, 0)))[codes], tuple(chr(code) for code in used)


def contents_of(texts: Sequence[str], options: Mapping[str, Any]) -> Contents:
    """Texts in characters, one after the other, with what the options say about their tokens."""
    texts = [text.lower() for text in texts] if options["lower"] else texts
    numbers, alphabet = encode("".join(texts))
    return Contents(
        "text",
        numbers,
        alphabet=alphabet,
        window=options["window"] or WINDOW,
        shortens=options["window"] is None,
        tokenizer=options["tokenizer"],
        vocab=options["vocab"],
        documents=np.array([len(text) for text in texts]) if options["packing"] else None,
        streams=options["streams"],
        allow_special=options["allow_special"] or bool(options["special"]),
        special=special_names(options),
    )


def special_names(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The special tokens that the vocabulary of a text gets on top of its own."""
    names = tuple(options["special"])
    capital = next((name for name in names if options.get("lower") and name != name.lower()), None)
    if capital is not None:
        raise ArgumentError(
            f"special={capital!r} and lower=true: in small letters the text never holds it",
            remedy=f"name it {capital.lower()!r}, or leave lower out",
        )
    return names


def paragraphs(text: str) -> list[str]:
    """What blank lines divide a text into, each with those that follow it.

    >>> paragraphs("one\\ntwo\\n\\nthree\\n")
    ['one\\ntwo\\n\\n', 'three\\n']
    """
    ends = [0, *(found.end() for found in _BLANK.finditer(text)), len(text)]
    return [text[first:last] for first, last in itertools.pairwise(ends) if first < last]


def clean(data: bytes, where: str) -> tuple[str, dict[int, Problem], list[Problem]]:
    """Text without its bad lines, its line ends made new lines; the bad lines by number; and notes."""
    text, bad, notes = decode(data, where)
    if bad:
        text = "".join(line for number, line in enumerate(lines(text), start=1) if number not in bad)
    return text.replace("\r\n", "\n").replace("\r", "\n"), bad, notes


def count_lines(text: str) -> int:
    """Lines of a text; the last may lack its end."""
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def _scan(request: ReadRequest) -> Scan:
    where = request.path.name
    if request.options["stream"]:
        return _scan_streamed(request.path, where, request.options)
    data = bounded.read(request.path, where, request.options["max_bytes"], request.options["max_ratio"])
    text, bad, notes = clean(data, where)
    total = count_lines(text) + len(bad)
    if not text:
        return Scan(total, 0, (*bad.values(), Problem("empty", where, "no text is left", "stop")))
    texts = paragraphs(text) if request.options["packing"] else [text]
    contents = contents_of(texts, request.options)
    return Scan(total, total - len(bad), (*bad.values(), *notes), contents)


class StreamedFile(NamedTuple):
    """What going through a file once says of it."""

    lines: int
    size: int
    ends: bool
    """Whether it ends with the end of a line."""
    marked: bool
    """Whether it begins with the mark of UTF-8."""


def go_through(path: Path, where: str, update: Callable[[bytes], object]) -> StreamedFile:
    """Go through a file that need not fit into memory: it must be UTF-8 from beginning to end; `update` sees it all."""
    if what := special(path):
        raise Refused(
            "not a file", where, f"it is {what}, which cannot be read twice", "leave data.stream out"
        )
    decoder, newlines, size, last = codecs.getincrementaldecoder("utf-8")(), 0, 0, b""
    marked = False
    for raw, at in streaming.examined(path):
        if at == 0:
            _check_start(raw, where)
            marked = raw.startswith(codecs.BOM_UTF8)
        if b"\0" in raw:
            raise Refused("not text", where, f"a binary file (first zero byte: byte {at + raw.index(0)})")
        try:
            decoder.decode(raw)
        except UnicodeDecodeError as error:
            detail = f"invalid UTF-8 at about byte {at + error.start}"
            raise Refused(
                "not UTF-8", where, detail, f"if it is Latin-1, {_convert('LATIN1', where)}"
            ) from None
        update(raw)
        newlines, size, last = newlines + raw.count(b"\n"), size + len(raw), raw[-1:]
    if not last:
        raise Refused("empty", where, "empty file", "give a file with text in it")
    ends = last == b"\n"
    return StreamedFile(newlines + (not ends), size, ends, marked)


def streamed_contents(
    name: str,
    files: Sequence[Path],
    sizes: Sequence[int],
    skips: Sequence[int],
    digest: str,
    options: Mapping[str, Any],
) -> Contents:
    """Files that need not fit into memory, one after the other: see `StreamedText`."""
    return Contents(
        "text",
        np.broadcast_to(np.zeros((), np.uint8), (sum(sizes),)),  # as long as the text, and of no size
        window=options["window"] or WINDOW,
        shortens=options["window"] is None,
        tokenizer=options["tokenizer"],
        vocab=options["vocab"],
        stream=StreamedText(
            name,
            tuple(files),
            tuple(sizes),
            tuple(skips),
            digest,
            options["lower"],
            options["allow_special"] or bool(options["special"]),
            special_names(options),
        ),
        streams=options["streams"],
    )


def check_unpacked(where: str, options: Mapping[str, Any]) -> None:
    """Documents are put together in memory."""
    if options["packing"]:
        raise Refused("documents", where, "stream=true and packing=true", "leave one of the two out")


def _scan_streamed(path: Path, where: str, options: Mapping[str, Any]) -> Scan:
    check_unpacked(where, options)
    digest = hashlib.sha256()
    found = go_through(path, where, digest.update)
    # Of a single file the mark, if any, counts as text until it is decoded: so its pieces stay what they were.
    contents = streamed_contents(path.name, [path], [found.size], [0], digest.hexdigest(), options)
    return Scan(found.lines, found.lines, (), contents)


def _tokenizer(value: Any) -> str:
    """The name of a tokenizer, or the whole path of its file."""
    if value in KINDS:
        return str(value)
    path = Path(value).expanduser() if isinstance(value, str) and value.endswith(".json") else None
    if path is None or not path.is_file():
        raise ValueError(f"{spell(KINDS)}, or the path of a tokenizer's .json file")
    return str(path.resolve())


def _names(value: Any) -> list[str]:
    """Names of special tokens."""
    names = value if isinstance(value, list | tuple) else [] if value is None else [value]
    odd = any(not isinstance(name, str) or not name or any(map(str.isspace, name)) for name in names)
    if odd or len(set(names)) < len(names):
        raise ValueError("names without white space, each once, such as <user>,<assistant>")
    return [*names]


OPTIONS = {
    "window": Option(
        None,
        optional(whole(2)),
        f"tokens that an example predicts, each from those before it; {WINDOW} by default, fewer of a short text",
    ),
    "tokenizer": Option("character", _tokenizer, f"{', '.join(KINDS)}, or a tokenizer's .json file"),
    "vocab": Option(None, optional(whole(1)), "tokens in the vocabulary of a tokenizer that is learnt"),
    "lower": Option(False, flag, "capitals become small letters"),
    "packing": Option(
        False,
        flag,
        "windows hold whole documents, each read by itself: files of a folder, lines of a .jsonl file, what blank "
        "lines divide a text into",
    ),
    "allow_special": Option(
        False,
        flag,
        "names of special tokens in the text, such as <|endoftext|>, become these tokens; otherwise they are text",
    ),
    "special": Option(
        [],
        _names,
        "special tokens that the vocabulary gets on top of its own, such as <user>,<assistant>; their names in the "
        "text become these tokens and are never split",
    ),
    "streams": Option(
        0,
        whole(0),
        "training reads so many pieces of the text side by side, from beginning to end; the size of a batch",
    ),
    "max_bytes": MAX_BYTES,
    "max_ratio": MAX_RATIO,
}
"""Options of every source of text."""

STREAM = Option(
    False,
    flag,
    "text larger than memory: read in blocks, its tokens kept in a file of the cache (tokenizer=byte-bpe or a file)",
)

reader = SourceReader("text", "lines", {**OPTIONS, "stream": STREAM}, _scan)

__all__ = [
    "OPTIONS",
    "STREAM",
    "StreamedFile",
    "check_unpacked",
    "clean",
    "contents_of",
    "count_lines",
    "decode",
    "encode",
    "go_through",
    "lines",
    "paragraphs",
    "reader",
    "special_names",
    "streamed",
    "streamed_contents",
]
