"""Drawing of picture records: SVG and PNG, and GIF for animations."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from chainrule.core.errors import ArgumentError, CapabilityError, check_choice
from chainrule.core.pictures import (
    AttentionMaps,
    Bars,
    Film,
    Heatmap,
    Images,
    Lines,
    Passage,
    Picture,
    Polygons,
    Scatter,
    Slides,
    Sounds,
    Swarm,
    Table,
    Waterfall,
)
from chainrule.report import (
    animations,
    attention_maps,
    charts,
    heatmaps,
    image_grids,
    passages,
    points,
    sounds,
    svg,
    swarms,
    waterfalls,
)
from chainrule.report.style import matplotlib_settings
from chainrule.train.files import make_folder, write_atomic


def draw(
    picture: Picture,
    path: str | Path | None = None,
    *,
    theme: str = "light",
    title: bool = True,
    metadata: Mapping[str, Any] | None = None,
) -> str:
    """A picture as SVG text, also written to `path` if one is given. The same picture gives the same bytes.

    `theme="light"` has plain colours on white. `theme="auto"` names its colours with the CSS variables of
    `report.style`, for a page that shows it in light and dark; pages that print the title themselves leave it out
    with `title=False`.

    >>> import numpy as np
    >>> loss = Lines("loss", "Loss", "step", "nats", {"train": (np.arange(3), np.array([3.0, 2.0, 1.5]))})
    >>> draw(loss).startswith("<svg xmlns=")
    True
    """
    check_choice("draw", "theme", theme, ["light", "auto"])
    with matplotlib_settings():
        text = svg.finish(_tree(picture, title), picture, theme=theme, metadata=metadata)
    if path is not None:
        _write(Path(path), text)
    return text


def draw_png(
    picture: Picture,
    path: str | Path | None = None,
    *,
    title: bool = True,
    metadata: Mapping[str, Any] | None = None,
) -> bytes:
    """A picture as PNG at twice its size, also written to `path` if one is given.

    `metadata` (run, step, seed, settings) goes into text chunks, which any image reader shows.

    >>> import numpy as np
    >>> draw_png(Images("noise", "Noise", np.zeros((4, 2, 2, 1))), metadata={"seed": 0})[:4]
    b'\\x89PNG'
    """
    if isinstance(picture, Slides):
        raise CapabilityError(
            f"draw_png({picture.name!r}): slides are drawn as SVG only",
            remedy="chainrule.report.draw(picture)",
        )
    chunks = image_grids.text_chunks(metadata or {})
    out = io.BytesIO()
    if isinstance(picture, Film):
        picture = animations.still(picture)
    if isinstance(picture, Images):
        image_grids.sheet_png(picture, title).save(out, "PNG", pnginfo=chunks, optimize=True)
    else:
        with matplotlib_settings():
            _figure(picture, title).savefig(out, format="png", dpi=144, pil_kwargs={"pnginfo": chunks})
    if path is not None:
        _write(Path(path), out.getvalue())
    return out.getvalue()


def draw_gif(
    film: Film,
    path: str | Path | None = None,
    *,
    title: bool = True,
    metadata: Mapping[str, Any] | None = None,
) -> bytes:
    """A film as an animated GIF, also written to `path` if one is given; `draw` and `draw_png` show how it ends.

    >>> import numpy as np
    >>> draw_gif(Film("fade", "Fade", np.linspace(0, 1, 3).reshape(3, 1, 1, 1, 1)))[:6]
    b'GIF89a'
    """
    found = animations.gif(film, title, metadata)
    if path is not None:
        _write(Path(path), found)
    return found


def save(picture: Picture, folder: Path, name: str, metadata: Mapping[str, Any]) -> Path:
    """Draw a picture into `folder` under `name`: films as GIF, sheets of images as PNG, everything else as SVG."""
    if isinstance(picture, Film):
        path = folder / f"{name}.gif"
        draw_gif(picture, path, metadata=metadata)
    elif isinstance(picture, Images):
        path = folder / f"{name}.png"
        draw_png(picture, path, metadata=metadata)
    else:
        path = folder / f"{name}.svg"
        draw(picture, path, metadata=metadata)
    return path


def _write(path: Path, contents: bytes | str) -> None:
    make_folder(path.parent)
    write_atomic(path, contents, durable=False)


def _figure(
    picture: Lines
    | Bars
    | Scatter
    | Waterfall
    | Swarm
    | Polygons
    | Heatmap
    | Table
    | Passage
    | Sounds
    | AttentionMaps,
    title: bool,
) -> Figure:
    match picture:
        case Lines():
            return charts.lines(picture, title)
        case Bars():
            return charts.bars(picture, title)
        case Scatter():
            return points.scatter(picture, title)
        case Waterfall():
            return waterfalls.waterfall(picture, title)
        case Swarm():
            return swarms.swarm(picture, title)
        case Polygons():
            return points.polygons(picture, title)
        case Heatmap():
            return heatmaps.heatmap(picture, title)
        case Table():
            return heatmaps.table(picture, title)
        case Passage():
            return passages.passage(picture, title)
        case Sounds():
            return sounds.waveforms(picture, title)
        case AttentionMaps():
            return attention_maps.drawing(picture, title)
        case _:
            raise ArgumentError(
                f"draw(picture={type(picture).__name__}): not a record of chainrule.core.pictures"
            )


def _tree(picture: Picture, title: bool) -> svg.Element:
    if isinstance(picture, Film):
        picture = animations.still(picture)
    if isinstance(picture, Images):
        return image_grids.sheet_svg(picture, title)
    if isinstance(picture, Slides):
        return svg.from_document(picture.drawings[-1])
    out = io.StringIO()
    _figure(picture, title).savefig(out, format="svg", dpi=144, metadata={"Date": None, "Creator": None})
    return svg.from_document(out.getvalue())


__all__ = ["draw", "draw_gif", "draw_png", "save"]
