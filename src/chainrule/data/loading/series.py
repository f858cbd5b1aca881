"""One long series of numbers cut into examples.

Validation and test are the last pieces, so that a model is always judged on what came later.
"""

from dataclasses import replace

import numpy as np

from chainrule.data import kinds
from chainrule.data.loading.problems import Refused
from chainrule.data.loading.scan import Contents


def cut(contents: Contents, window: int, where: str) -> Contents:
    """Sequences of `window` rows of a table each; a shorter rest at the end is left out.

    >>> rows = Contents("table", np.arange(7.0)[:, None], standardise=np.ones(1, bool))
    >>> cut(rows, 2, "seven rows").x[..., 0].tolist()
    [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    """
    if not kinds.of(contents).has_rows:
        raise Refused("not a series", where, f"series={window}: {contents.kind} data have no rows in time")
    if contents.y is not None or contents.parts is not None:
        detail = f"series={window}: a series has neither targets nor parts of its own"
        raise Refused("not a series", where, detail, "for a table: data.target=none")
    x = contents.x if contents.rows is None else contents.x[contents.rows]
    count = len(x) // window
    if count < 3:
        detail = f"{len(x):,} rows make {count} examples of {window}; at least 3 are needed"
        raise Refused("too short", where, detail, f"use data.series={max(2, len(x) // 10)}")
    windows = np.asarray(x[: count * window]).reshape(count, window, -1)
    return replace(contents, kind="sequence", x=windows, columns=(), rows=None, consecutive=True)


__all__ = ["cut"]
