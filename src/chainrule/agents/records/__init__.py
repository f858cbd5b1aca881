"""Stored games as examples to learn from: what was on the board, what was played, how it ended."""
