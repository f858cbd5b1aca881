"""Real data as short files by the probabilities of a model, and back to the last bit.

Symbols have `distributions` and go to `coders`, a stack or a queue, in the order that `codes` say; `container` is the
file, `compressing` joins them all.
"""
