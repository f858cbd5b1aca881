"""Pictures, and the report of a run as one self-contained page."""

from chainrule.report.album import Album, Chapter, write_album, write_page
from chainrule.report.drawing import draw, draw_gif, draw_png, save
from chainrule.report.gallery import pictures
from chainrule.report.writing import write

__all__ = [
    "Album",
    "Chapter",
    "draw",
    "draw_gif",
    "draw_png",
    "pictures",
    "save",
    "write",
    "write_album",
    "write_page",
]
