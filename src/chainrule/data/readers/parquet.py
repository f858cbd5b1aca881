"""Parquet tables, read by the package pyarrow where it is installed.

Cells become text as CSV would hold it, so that a table means the same in every format: numbers with all their digits,
dates as 2024-03-31, nothing where there is no value.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chainrule.data.loading.problems import Refused
from chainrule.data.readers.raw import Numbered, RowSource, cell_text

_ROWS = 10_000
_CELL = 8
"""Bytes that a cell takes at the least: a value that is repeated a million times takes none in the file."""


def open_rows(path: Path, where: str, options: Mapping[str, Any]) -> RowSource:
    """The rows of a file, its names first; columns of lists and the like are not unpacked."""
    try:
        import pyarrow as arrow  # type: ignore[import-untyped, import-not-found, unused-ignore]
        import pyarrow.parquet as parquet  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        detail = "Parquet is read by the package pyarrow, which is not installed"
        raise Refused("package missing", where, detail, "install it: pip install pyarrow") from None
    try:
        file = parquet.ParquetFile(path)
        _check(file, path, where, options)
        names = [str(name) for name in file.schema_arrow.names]
        kinds = dict(zip(names, file.schema_arrow.types, strict=True))
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise _damaged(where, error) from None
    other = {name: str(kind) for name, kind in kinds.items() if not _readable(kind, arrow.types)}
    return RowSource(_rows(file, names, other, where), [], "row", named=True, unreadable=other)


def _rows(file: Any, names: list[str], other: Mapping[str, str], where: str) -> Iterator[Numbered]:
    import pyarrow as arrow

    yield 0, names
    kept = [name for name in names if name not in other]
    number = 0
    try:
        for batch in file.iter_batches(_ROWS, columns=kept):
            texts = (_texts(column, arrow) for column in batch.columns)
            held = dict(zip(batch.schema.names, texts, strict=True))
            blank = [""] * len(batch)
            for cells in zip(*(held.get(name, blank) for name in names), strict=True):
                number += 1
                yield number, list(cells)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise _damaged(where, error) from None


def _texts(column: Any, arrow: Any) -> list[str]:
    if arrow.types.is_timestamp(column.type):  # Python's own dates end at microseconds
        column = column.cast(arrow.timestamp("us", column.type.tz), safe=False)
    return [cell_text(value) for value in column.to_pylist()]


def _readable(kind: Any, types: Any) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    tests = (
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_decimal,
        types.is_date,
        types.is_timestamp,
    )
    words = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return any(test(kind) for test in (*tests, *words))


def _check(file: Any, path: Path, where: str, options: Mapping[str, Any]) -> None:
    """Refuse what would not fit into memory; the file says how large it is, and pyarrow holds it to that."""
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    size, packed = sum(group.total_byte_size for group in groups), path.stat().st_size
    size = max(size, _CELL * file.metadata.num_rows * file.metadata.num_columns)
    if size > options["max_bytes"]:
        detail = f"{size:,} bytes in memory, more than max_bytes={options['max_bytes']:,}"
        raise Refused(
            "too large", where, detail, f"if you trust the file and have the memory: data.max_bytes={size}"
        )
    if size > max(2**24, packed * options["max_ratio"]):
        detail = f"unpacks to more than max_ratio={options['max_ratio']} times its size"
        raise Refused(
            "too strongly compressed",
            where,
            detail,
            f"if you trust the file: data.max_ratio={size // packed + 1}",
        )


def _damaged(where: str, error: Exception) -> Refused:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return Refused("damaged", where, f"no Parquet file, or a damaged one ({first})", "write the file again")


__all__ = ["open_rows"]
