"""Albums: pictures, findings and numbers in a folder, with one self-contained page over them.

For everything that is shown without being a run: experiments, probes into a run. The folder holds `index.html`, every
picture as a file of its own with its numbers beside it as CSV, and `numbers.json` for machines.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from chainrule import __version__
from chainrule.core.errors import RunError
from chainrule.core.pictures import Picture, Table
from chainrule.report import page
from chainrule.report.csv_files import write_csv
from chainrule.report.drawing import save
from chainrule.report.pieces import file_names
from chainrule.report.style import one_color_per_series
from chainrule.train.files import make_folder, write_atomic, write_json


@final
@dataclass(frozen=True)
class Chapter:
    """One part of an album, or the reason why it is missing."""

    name: str
    summary: str
    findings: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    declined: bool = False
    """Whether the reason is that it does not apply here, and nothing went wrong."""


@final
@dataclass(frozen=True)
class Album:
    """The files of an album."""

    page: Path
    numbers: Path
    pictures: Sequence[Path]


def write_album(
    folder: Path,
    title: str,
    lead: str,
    chapters: Sequence[Chapter],
    *,
    settings: Mapping[str, Any],
    again: Mapping[str, str],
) -> Album:
    """Write an album; `settings` are shown at the end and kept in every picture, `again` says what to type."""
    if folder.is_symlink():
        raise RunError(f"{folder} is a link: pictures are written only where they really lie")
    make_folder(folder)
    drawn = []
    named = file_names([picture for chapter in chapters for picture in chapter.pictures])
    for name, picture in named.items():
        write_csv(picture, folder / f"{name}.csv")
        if isinstance(picture, Table):
            continue  # the page holds it as text
        drawn.append(save(picture, folder, name, {"title": title, "settings": dict(settings)}))
    numbers = folder / "numbers.json"
    write_json(numbers, {chapter.name: _plain(chapter.numbers) for chapter in chapters}, durable=False)
    index = folder / "index.html"
    write_atomic(index, _page(title, lead, chapters, settings, again), durable=False)
    return Album(index, numbers, drawn)


def write_page(path: Path, title: str, lead: str, pictures: Sequence[Picture]) -> None:
    """Write pictures on a page of their own."""
    head = ["<header>", f"<h1>{page.say(title)}</h1>", f'<p class="lead">{page.say(lead)}</p>', "</header>"]
    parts = [*head, "<main>", page.gallery(pictures), "</main>"]
    write_atomic(path, page.document(f"{title} · Chainrule", parts), durable=False)


def _page(
    title: str,
    lead: str,
    chapters: Sequence[Chapter],
    settings: Mapping[str, Any],
    again: Mapping[str, str],
) -> str:
    footer = (
        f"<footer><p>Written by Chainrule {page.say(__version__)}. The pictures are the files beside "
        "this page, each with its numbers as CSV; all numbers are in <code>numbers.json</code>.</p></footer>"
    )
    head = ["<header>", f"<h1>{page.say(title)}</h1>", f'<p class="lead">{page.say(lead)}</p>', "</header>"]
    with one_color_per_series():
        body = [_chapter(chapter) for chapter in chapters]
    last = page.section("Again", page.commands(again), page.fold("Settings", page.pairs(settings)))
    return page.document(f"{title} · Chainrule", [*head, "<main>", *body, last, "</main>", footer])


def _chapter(chapter: Chapter) -> str:
    parts = [f"<p>{page.say(sentence)}</p>" for sentence in chapter.findings]
    if chapter.problem:
        what = "This does not apply here." if chapter.declined else "This could not be shown."
        parts.append(page.notice(what, chapter.problem))
    return page.section(chapter.summary, *parts, page.gallery(chapter.pictures))


def _plain(value: Any) -> Any:
    """A value made of what JSON knows; numbers it does not have become null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, str | bool | int) or value is None:
        return value
    return float(value) if math.isfinite(value) else None


__all__ = ["Album", "Chapter", "write_album", "write_page"]
