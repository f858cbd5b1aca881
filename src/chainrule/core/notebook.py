"""HTML by which objects show themselves in a notebook: text, tables, drawings and whole pages, everything escaped."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from chainrule.core.quoting import plain, printable


def text(shown: object) -> str:
    """Text of several lines in letters of one width.

    >>> text("a < b")
    '<pre>a &lt; b</pre>'
    """
    return f"<pre>{html.escape(printable(shown))}</pre>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> str:
    """A table, with a title above it where there is one.

    >>> table(["class"], [["<b>"]])
    '<table><thead><tr><th>class</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{_cell(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    named = f"<p><strong>{_cell(title)}</strong></p>" if title else ""
    top = f"<thead><tr>{head}</tr></thead>" if columns else ""
    return f"{named}<table>{top}<tbody>{body}</tbody></table>"


def drawing(svg: str, said: object = "") -> str:
    """A drawing of ours, with a line of text above it where there is something to say."""
    inside = svg[svg.index("<svg") :]  # a file may begin with a declaration, which a page must not hold
    return f"{text(said) if said else ''}<div>{inside}</div>"


@final
@dataclass(frozen=True)
class InlinePage:
    """A whole page inside another one."""

    page: str
    height: int

    def _repr_html_(self) -> str:
        inside = html.escape(self.page)
        return f'<iframe srcdoc="{inside}" width="100%" height="{self.height}" style="border: 0"></iframe>'


def _cell(value: object) -> str:
    return html.escape(plain(value))


__all__ = ["InlinePage", "drawing", "table", "text"]
