"""HTML of the report: pieces made from plain values, every one of them escaped.

The page carries everything it shows and asks for nothing: no fonts, no images from elsewhere, and no scripts but the
one that attention maps come with. A content security policy names that one by its hash, where it is needed, and would
stop any other if a name ever managed to smuggle one in.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from chainrule.core.formatting import number
from chainrule.core.palette import DARK, LIGHT
from chainrule.core.pictures import AttentionMaps, Film, Picture, Slides, Sounds, Table
from chainrule.core.quoting import plain, printable
from chainrule.report import attention_maps, sounds
from chainrule.report.drawing import draw, draw_gif, draw_png
from chainrule.report.style import variables

_STYLE = Path(__file__).with_name("page.css")
_SCRIPTS = {'<div class="attention-maps">': Path(__file__).with_name("attention.js")}
"""By what a page shows, the script it carries for it; text of others is escaped and cannot look like that."""
_PLAYERS = '<div class="players">'
"""What a page with sound has: only such a page may play any, and only what it carries itself."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_ORDINARY = 560
"""Pictures wider than this take a row of their own."""


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page."""
    parts = list(parts)
    scripts = [
        file.read_text(encoding="utf-8")
        for shown, file in _SCRIPTS.items()
        if any(shown in part for part in parts)
    ]
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    heard = "; media-src data:" if any(_PLAYERS in part for part in parts) else ""
    allowed = heard + ("; script-src" + "".join(f" 'sha256-{one}'" for one in hashes) if scripts else "")
    colors = (
        f":root{{{variables(LIGHT)}}}\n"
        f"@media screen and (prefers-color-scheme: dark){{:root{{{variables(DARK)}}}}}\n"
    )
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY + allowed)}">',
            f"<title>{say(title)}</title>",
            f"<style>\n{colors}{_STYLE.read_text(encoding='utf-8')}</style>",
            "</head>",
            "<body>",
            *parts,
            *(f"<script>{script}</script>" for script in scripts),
            "</body>",
            "</html>",
            "",
        ]
    )


def say(text: object) -> str:
    """Text on one line, safe inside an element or an attribute.

    >>> say("<script>")
    '&lt;script&gt;'
    """
    return escape(plain(text))


def section(title: str, *parts: str) -> str:
    """A headed part of the page."""
    return "\n".join(["<section>", f"<h2>{say(title)}</h2>", *parts, "</section>"])


def notice(*lines: str) -> str:
    """What the reader must know first."""
    return "\n".join(
        ['<aside class="notice">', *(f"<p>{say(line)}</p>" for line in lines if line), "</aside>"]
    )


def gallery(pictures: Sequence[Picture]) -> str:
    """Pictures in reading order, two in a row where there is room; one that would be alone in its row fills it."""
    bodies = [_body(picture) for picture in pictures]
    figures: list[str] = []
    waiting = False  # the row holds one picture and has room for another
    for index, (picture, (body, wide)) in enumerate(zip(pictures, bodies, strict=True)):
        followed = index + 1 < len(bodies) and not bodies[index + 1][1]
        alone = not (wide or waiting or followed)
        figures.append(_figure(picture, body, wide=wide or alone))
        waiting = not (wide or waiting or alone)
    return "\n".join(['<div class="pictures">', *figures, "</div>"])


def figure(picture: Picture) -> str:
    """A picture under its title and over its caption; tables as tables."""
    body, wide = _body(picture)
    return _figure(picture, body, wide=wide)


def _body(picture: Picture) -> tuple[str, bool]:
    """What is shown of a picture, and whether it takes a row of its own."""
    if isinstance(picture, Table):
        return grid(picture.columns, picture.rows), len(picture.columns) > 4
    if isinstance(picture, Film):
        return _film(picture), True
    if isinstance(picture, Slides):
        return _slides(picture), True
    if isinstance(picture, Sounds):
        clips = [sounds.audio_element(say(name), clip, picture.rate) for name, clip in picture.clips.items()]
        return "\n".join([_PLAYERS, *clips, "</div>"]), True
    drawing = draw(picture, theme="auto", title=False)
    width = float(drawing.split(' width="', 1)[1].split('"', 1)[0])
    # Enlarged a little where there is room, never so much that it shouts.
    still = f'<div style="max-width: {1.15 * width:.0f}px; margin: 0 auto">{drawing}</div>'
    if isinstance(picture, AttentionMaps):
        return attention_maps.interactive(picture, still), True
    return still, width > _ORDINARY


def _figure(picture: Picture, body: str, *, wide: bool) -> str:
    caption = f"<figcaption>{escape(printable(picture.caption))}</figcaption>" if picture.caption else ""
    return (
        f"<figure{' class=wide' if wide else ''}>\n<h3>{say(picture.title)}</h3>\n{body}\n{caption}</figure>"
    )


def _film(film: Film) -> str:
    """The moving picture, or how it ends for readers who asked for no motion."""
    moving, ending = (
        f"data:image/{kind};base64,{base64.b64encode(found).decode()}"
        for kind, found in (
            ("gif", draw_gif(film, title=False)),
            ("png", draw_png(film, title=False)),
        )
    )
    return (
        f'<picture><source media="(prefers-reduced-motion: reduce)" srcset="{ending}">'
        f'<img src="{moving}" alt="{say(film.title)}"></picture>'
    )


def _slides(slides: Slides) -> str:
    """One slide at a time, chosen by buttons or, as radio buttons are, by the arrow keys."""
    names = [f"{say(slides.name)}-{index}" for index in range(len(slides.drawings))]
    parts = []
    for index, (name, drawing, note) in enumerate(zip(names, slides.drawings, slides.notes, strict=True)):
        chosen = "" if index else " checked"
        title, _, rest = printable(note).partition("\n")
        back = f'<label for="{names[index - 1]}">‹ back</label>' if index else "<span></span>"
        forward = f'<label for="{names[index + 1]}">next ›</label>' if name != names[-1] else "<span></span>"
        image = base64.b64encode(drawing.encode()).decode()
        parts.append(
            f'<input type="radio" name="{say(slides.name)}" id="{name}" aria-label="{escape(title)}"{chosen}>'
            f'<div class="slide"><p>{back}<strong>{escape(title)}</strong>{forward}</p>'
            f'<img src="data:image/svg+xml;base64,{image}" alt="{escape(title)}">'
            + (f"<pre>{escape(rest)}</pre>" if rest else "")
            + "</div>"
        )
    return "\n".join(['<div class="slides">', *parts, "</div>"])


def grid(columns: Sequence[str], rows: Sequence[Sequence[str | float | int]]) -> str:
    """A table with a head; numbers on the right."""
    numeric = [bool(rows) and not any(isinstance(row[i], str) for row in rows) for i in range(len(columns))]
    kinds = [' class="number"' if n else "" for n in numeric]
    head = "".join(f'<th scope="col"{kind}>{say(c)}</th>' for kind, c in zip(kinds, columns, strict=True))
    lines = [
        "<tr>" + "".join(f"<td{kind}>{_cell(c)}</td>" for kind, c in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    ]
    return "\n".join(
        [
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>',
            *lines,
            "</tbody></table></div>",
        ]
    )


def pairs(values: Mapping[str, Any]) -> str:
    """Names and values, nested names joined by dots as the command line writes them."""
    lines = [
        f'<tr><th scope="row">{say(name)}</th><td>{_value(value)}</td></tr>' for name, value in flat(values)
    ]
    return "\n".join(['<table class="pairs"><tbody>', *lines, "</tbody></table>"])


def flat(values: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """Nested settings as a list.

    >>> list(flat({"optimizer": {"lr": 0.1}, "seed": 0}))
    [('optimizer.lr', 0.1), ('seed', 0)]
    """
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def fold(title: str, body: str, *, long: bool = False) -> str:
    """Something that can be opened."""
    return f"<details{' class=long' if long else ''}>\n<summary>{say(title)}</summary>\n{body}\n</details>"


def numbers(values: Mapping[str, tuple[str, str]]) -> str:
    """Large numbers: name to (value, the small print after it)."""
    cards = [
        f"<div><dt>{say(name)}</dt><dd>{say(value)} <small>{say(rest)}</small></dd></div>"
        for name, (value, rest) in values.items()
    ]
    return "\n".join(['<dl class="numbers">', *cards, "</dl>"])


def commands(lines: Mapping[str, str]) -> str:
    """What to type, by purpose."""
    items = [
        f"<dt>{say(why)}</dt><dd><pre><code>{escape(printable(what))}</code></pre></dd>"
        for why, what in lines.items()
    ]
    return "\n".join(['<dl class="commands">', *items, "</dl>"])


def _cell(value: str | float | int) -> str:
    return escape(printable(value)) if isinstance(value, str) else number(value)


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return escape(printable(text))


__all__ = [
    "commands",
    "document",
    "figure",
    "flat",
    "fold",
    "gallery",
    "grid",
    "notice",
    "numbers",
    "pairs",
    "say",
    "section",
]
