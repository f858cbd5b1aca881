"""Decoding: from the logits of the next token to texts.

An engine that takes functions, and named ways to use it: `rules` decides what may be drawn, `write` draws a whole text
in one compiled loop, `search` keeps several at once (beams), `RereadContext` goes on past the context, `stream`
gives out token by token, `Detokenizer` turns tokens into text as they come.
"""

from chainrule.models.protocol.decoding.beam import BeamOrder, Beams, BestFirst, GumbelTopK, Resampled, search
from chainrule.models.protocol.decoding.rules import RuleOptions, Rules, rules
from chainrule.models.protocol.decoding.sampling import (
    END,
    Advance,
    GeneratedTokens,
    RowDraws,
    draw,
    mark,
    present,
    write,
)
from chainrule.models.text.decoding.detokenizing import Detokenizer, cut
from chainrule.models.text.decoding.options import GROUPS, Decoding, TokenOptions
from chainrule.models.text.decoding.reread import ContextWindow, RereadContext
from chainrule.models.text.decoding.streaming import stream

__all__ = [
    "END",
    "GROUPS",
    "Advance",
    "BeamOrder",
    "Beams",
    "BestFirst",
    "ContextWindow",
    "Decoding",
    "Detokenizer",
    "GeneratedTokens",
    "GumbelTopK",
    "RereadContext",
    "Resampled",
    "RowDraws",
    "RuleOptions",
    "Rules",
    "TokenOptions",
    "cut",
    "draw",
    "mark",
    "present",
    "rules",
    "search",
    "stream",
    "write",
]
