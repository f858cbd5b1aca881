"""Files of unknown origin, read within limits.

No length a file declares is believed, and nothing is unpacked further than the limits allow, so a small hostile file
cannot fill the memory. A file that hits a limit is refused by name, with the limit and the option that raises it.
"""

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from chainrule.data.loading.problems import Refused
from chainrule.data.loading.walking import special

STDIN = Path("/dev/stdin")
"""Opened whatever it is, because the user has asked for it with a dash."""
_GZIP = b"\x1f\x8b"
# Small files may expand as much as they like: a ratio only matters once the result is large.
_FREE = 2**24


def read(path: Path, where: str, max_bytes: int, max_ratio: int) -> bytes:
    """The bytes of a file, unpacked if it is compressed with gzip."""
    what = special(path)
    if what and path != STDIN:
        raise Refused("not a file", where, f"it is {what}, which is never opened")
    try:
        packed = path.stat().st_size
        _check(where, packed, max_bytes)
        with path.open("rb") as file:
            start = file.read(len(_GZIP))
            if start != _GZIP:
                data = start + file.read(max_bytes)  # a pipe does not say how long it is
                _check(where, len(data), max_bytes)
                return data
        bound = min(max_bytes, max(_FREE, packed * max_ratio))
        with gzip.open(path) as unpacked:
            data = unpacked.read(bound + 1)
    except EOFError:
        raise Refused("truncated", where, "the compressed file is cut off", "fetch the file again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise Refused("damaged", where, f"damaged gzip file ({error})", "fetch the file again") from None
    except OSError as error:
        raise Refused("unreadable", where, error.strerror or str(error)) from None
    _check(where, len(data), max_bytes)
    _check_ratio(where, len(data), packed, max_ratio)
    return data


def members(
    path: Path, where: str, max_bytes: int, max_ratio: int, max_files: int
) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the members of a zip archive, one after the other."""
    if what := special(path):
        raise Refused("not a file", where, f"it is {what}, which is never opened")
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            if len(infos) > max_files:
                raise Refused(
                    "too many files",
                    where,
                    f"{len(infos):,} members, more than max_files={max_files}",
                    f"if you trust the file: data.max_files={len(infos)}",
                )
            _check(where, sum(info.file_size for info in infos), max_bytes)
            for info in infos:
                name = f"{where}[{info.filename}]"
                _check_ratio(name, info.file_size, info.compress_size, max_ratio)
                # zipfile stops at the declared size and then compares checksums, so a false declaration is an error.
                yield info.filename, archive.read(info)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise Refused(
            "damaged", where, f"damaged zip file ({error})", "fetch or write the file again"
        ) from None
    except OSError as error:
        raise Refused("unreadable", where, error.strerror or str(error)) from None


def _check(where: str, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise Refused(
            "too large",
            where,
            f"more than max_bytes={max_bytes:,} bytes in memory",
            f"if you trust the file and have the memory: data.max_bytes={2 * max_bytes}",
        )


def _check_ratio(where: str, size: int, packed: int, max_ratio: int) -> None:
    if size > max(_FREE, packed * max_ratio):
        raise Refused(
            "too strongly compressed",
            where,
            f"unpacks to more than max_ratio={max_ratio} times its size",
            f"if you trust the file: data.max_ratio={5 * max_ratio}",
        )


__all__ = ["STDIN", "members", "read"]
