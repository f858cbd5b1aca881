"""Piano rolls: every piece on a ground of its own, notes darker than any key behind them."""

import numpy as np

from chainrule.data.music import events, rendering
from chainrule.data.music.midi import Note


def test_notes_stand_out_from_the_keys_behind_them() -> None:
    rows = np.stack([events.encode([Note(0.0, 0.8, pitch, 66)]) for pitch in (60, 72)])
    picture = rendering.rolls("samples", "Samples", rows, [], "")
    pixels = np.asarray(picture.images)[..., 0]
    assert pixels.max() < 1  # where a piece ends can be seen on a white page
    keys = pixels[0, ::3, 0][::-1]  # from B3 to C#5, one pixel of each
    assert keys[1] < 0.5 < keys[0]
    black = [index for index, value in enumerate(keys) if 0.5 < value < 0.9]
    assert [(59 + index) % 12 for index in black] == [1, 3, 6, 8, 10, 1]
