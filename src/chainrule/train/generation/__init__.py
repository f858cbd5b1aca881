"""How good the examples are that a model draws: real ones to hold them against, features to compare them in, numbers.

Scores and probes of every family that samples use what is here; the distances themselves are in
`probability.samples`.
"""
