"""Pictures as files: sheets of images as PNG, everything else as SVG, each carrying where it came from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chainrule import report
from chainrule.core.pictures import Images, Picture


def save(picture: Picture, folder: Path, name: str, metadata: Mapping[str, Any]) -> Path:
    """Draw a picture into `folder` under `name` and the ending that suits it."""
    if isinstance(picture, Images):
        path = folder / f"{name}.png"
        report.draw_png(picture, path, metadata=metadata)
    else:
        path = folder / f"{name}.svg"
        report.draw(picture, path, metadata=metadata)
    return path


__all__ = ["save"]
