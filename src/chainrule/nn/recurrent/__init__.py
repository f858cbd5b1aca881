"""Recurrent layers: cells, the loop through time and its derivative, stacks and both directions."""

from chainrule.nn.recurrent.cells import Cell, Feedback, States
from chainrule.nn.recurrent.layers import GRU, LSTM, RNN, Recurrent
from chainrule.nn.recurrent.sequence_layer import SequenceLayer
from chainrule.nn.recurrent.stack import Bidirectional, Stack

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Bidirectional",
    "Cell",
    "Feedback",
    "Recurrent",
    "SequenceLayer",
    "Stack",
    "States",
]
