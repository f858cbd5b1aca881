"""How a text is written from what a model says about its next symbol.

An engine that takes functions, and named ways to use it: `rules` decides what may be drawn, `write` draws a whole text
in one compiled loop, `search` keeps several at once (beams), `Receding` goes on past the context, `stream` gives out
symbol by symbol, `Reader` turns symbols into text as they come.
"""

from chainrule.models.text.decoding.beam import Beams, Best, Gumbel, Order, Survivors, search
from chainrule.models.text.decoding.choices import OVERFLOW, SEARCHES, Choices
from chainrule.models.text.decoding.horizon import Horizon, Receding
from chainrule.models.text.decoding.reading import Reader, cut
from chainrule.models.text.decoding.rules import Rules, rules
from chainrule.models.text.decoding.sampling import (
    END,
    Advance,
    Written,
    draw,
    mark,
    present,
    write,
)
from chainrule.models.text.decoding.streaming import stream

__all__ = [
    "END",
    "OVERFLOW",
    "SEARCHES",
    "Advance",
    "Beams",
    "Best",
    "Choices",
    "Gumbel",
    "Horizon",
    "Order",
    "Reader",
    "Receding",
    "Rules",
    "Survivors",
    "Written",
    "cut",
    "draw",
    "mark",
    "present",
    "rules",
    "search",
    "stream",
    "write",
]
