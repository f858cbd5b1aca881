"""Music as notes: MIDI files, events that a model reads and writes one after the other, and a simple instrument."""
