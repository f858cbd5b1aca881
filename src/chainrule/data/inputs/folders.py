"""Folders of new inputs: their files in order, found as those of training are."""

from pathlib import Path

from chainrule.core.errors import DataError
from chainrule.data.inputs.protocol import Preparation
from chainrule.data.loading.problems import Refused
from chainrule.data.loading.walking import files_of

_MOST = 1_000_000


def files(folder: Path, prepared: Preparation) -> list[Path]:
    """Every file below a folder; links that lead out of it are followed if those of training were."""
    try:
        return files_of(folder, _MOST, prepared.options.get("links") or "inside")
    except Refused as refused:
        problem = refused.problem
        raise DataError(
            f"{problem.where}: {problem.detail}", remedy="put the files themselves into a folder of their own"
        ) from None


__all__ = ["files"]
