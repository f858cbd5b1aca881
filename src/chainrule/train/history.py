"""The history of a run: what metrics.jsonl holds, as columns and as curves."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.core.errors import RunError
from chainrule.train.files import read_own


def read(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; one that is just being written, or was cut short by a kill, is left out."""
    file = folder / "metrics.jsonl"
    try:
        contents = read_own(file, most=sys.maxsize)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror}") from None
    *lines, _unfinished = contents.split(b"\n")
    records = []
    for line_number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            kinds = {
                "step": int,
                "split": str,
                **dict.fromkeys(record.keys() - {"step", "split"}, float | int | None),
            }
            if any(not isinstance(record[name], kind) for name, kind in kinds.items()):
                raise ValueError("a field has the wrong type")
        except (ValueError, KeyError, AttributeError, RecursionError):
            raise RunError(
                f"{folder.name}: line {line_number} of metrics.jsonl cannot be read",
                remedy="remove the line; the checkpoints are not affected",
            ) from None
        records.append(record)
    return records


def columns(folder: Path) -> dict[str, np.ndarray]:
    """The history as columns: `step`, `split`, and every named number (NaN where a line does not have it)."""
    records = read(folder)
    names = dict.fromkeys(name for record in records for name in record if name not in ("step", "split"))
    found: dict[str, np.ndarray] = {
        "step": np.array([record["step"] for record in records], dtype=np.int64),
        "split": np.array([record["split"] for record in records], dtype=np.str_),
    }
    for name in names:
        values = (record.get(name) for record in records)
        found[name] = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    return found


def curve(
    history: Mapping[str, np.ndarray], name: str, split: str = "train"
) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of one number on one split."""
    if name not in history:
        return np.array([], dtype=np.int64), np.array([])
    chosen = (history["split"] == split) & ~np.isnan(history[name])
    return history["step"][chosen], history[name][chosen]


__all__ = ["columns", "curve", "read"]
