"""How a text is written from what a model says about its next symbol.

An engine that takes functions, and named ways to use it: `rules` decides what may be drawn, `write` draws a whole text
in one compiled loop, `search` keeps several at once (beams), `Receding` goes on past the context, `stream` gives out
symbol by symbol, `Reader` turns symbols into text as they come.
"""

from chainrule.models.text.decoding.beam import BeamOrder, Beams, BestFirst, GumbelTopK, Resampled, search
from chainrule.models.text.decoding.horizon import Horizon, Receding
from chainrule.models.text.decoding.options import GROUPS, Decoding
from chainrule.models.text.decoding.reading import Reader, cut
from chainrule.models.text.decoding.rules import RuleOptions, Rules, rules
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
    "GROUPS",
    "Advance",
    "BeamOrder",
    "Beams",
    "BestFirst",
    "Decoding",
    "GumbelTopK",
    "Horizon",
    "Reader",
    "Receding",
    "Resampled",
    "RuleOptions",
    "Rules",
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
