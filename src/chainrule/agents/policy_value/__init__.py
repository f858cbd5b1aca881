"""Networks that say which move to try and how a game will end, and their training on positions."""
