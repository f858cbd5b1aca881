"""Rules that say what a function does: a small decision tree fitted to its own answers."""
