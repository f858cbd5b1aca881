"""Models of one symbol after another: text, and whatever else can be written down in order."""
