"""Pieces that the reports of all runs have in common: files of pictures, the state of the run, its machine."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chainrule import __version__
from chainrule.core.errors import RunError
from chainrule.core.formatting import measured
from chainrule.core.pictures import Film, Picture
from chainrule.report import page
from chainrule.report.drawing import draw, draw_gif
from chainrule.report.gallery import PictureGroup
from chainrule.train import Metric
from chainrule.train.files import make_folder, read_own


def draw_all(pictures: Sequence[Picture], plots: Path, about: Mapping[str, Any]) -> None:
    """Write pictures as `*.svg`, films as `*.gif`, into the folder `plots` of a run."""
    if plots.is_symlink():
        raise RunError(
            f"{plots} is a link: a run is written only where it really lies", remedy="remove the link"
        )
    make_folder(plots)
    for name, picture in file_names(pictures).items():
        if isinstance(picture, Film):
            draw_gif(picture, plots / f"{name}.gif", metadata=about)
        else:
            draw(picture, plots / f"{name}.svg", metadata=about)


def file_names(pictures: Sequence[Picture]) -> dict[str, Picture]:
    """Pictures by a file name of their own; a model may call them what it likes."""
    named: dict[str, Picture] = {}
    for picture in pictures:
        stem = re.sub(r"[^a-z0-9]+", "-", picture.name.lower()).strip("-") or "picture"
        count = sum(other == stem or re.fullmatch(rf"{stem}-\d+", other) is not None for other in named)
        named[f"{stem}-{count + 1}" if count else stem] = picture
    return named


def state_notices(status: Mapping[str, Any], step: int | None) -> list[str]:
    """What the reader of a run that is not done must know first; `step` is that of the checkpoint it describes."""
    state, message = status["status"], str(status["message"])
    if state == "done":
        return []
    where = f"at step {status['step']:,} of {status['total']:,}"
    headline = {
        "running": f"Still running, {where}.",
        "interrupted": f"This run was interrupted {where}; it is not finished.",
        "diverged": f"This run diverged {where}: the loss or a weight stopped being a finite number.",
    }.get(state, f"This run failed {where}.")
    saved = (
        "No checkpoint was saved." if step is None else f"The page describes the checkpoint of step {step:,}."
    )
    return [page.notice(headline, message, saved)]


def score_card(metric: Metric) -> tuple[str, str]:
    """A number as `page.numbers` shows it: the value, and the small print after it."""
    value, _, error = measured(metric.value, metric.stderr).partition(" ± ")
    return value, " ".join(filter(None, [f"± {error}" if error else "", metric.unit, metric.kind]))


def group_section(group: PictureGroup) -> str:
    """Pictures under a heading, or why there are none."""
    body = (
        page.notice("There are no pictures here.", group.problem)
        if group.problem
        else page.gallery(group.pictures)
    )
    return page.section(group.title, body)


def environment(folder: Path) -> dict[str, Any]:
    """What env.json says."""
    try:
        found = json.loads(read_own(folder / "env.json"))
    except (OSError, ValueError):
        return {"env.json": "cannot be read"}
    return found if isinstance(found, dict) else {"env.json": "is not a table"}


def device(folder: Path) -> str:
    """What a run was trained on."""
    found = environment(folder)
    name = str(found.get("device", "an unknown device"))
    return f"{name}, {found.get('cores')} cores" if found.get("backend") == "cpu" else name


def footer(*more: str) -> str:
    """Which files a page was made of."""
    files = ("config.yaml", "env.json", *more, "metrics.jsonl", "checkpoints/")
    listed = ", ".join(f"<code>{page.say(file)}</code>" for file in files)
    return (
        f"<footer><p>Written by Chainrule {page.say(__version__)} from the files beside this page: {listed}. "
        "The pictures are in <code>plots/</code>.</p></footer>"
    )


__all__ = [
    "device",
    "draw_all",
    "environment",
    "file_names",
    "footer",
    "group_section",
    "score_card",
    "state_notices",
]
