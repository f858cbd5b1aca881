"""Boxes, feature maps and sound of the `vision` benchmark, the same for everybody: NumPy only."""

import numpy as np

BOXES, CLASSES, KEPT, THRESHOLD = 1000, 20, 100, 0.5
SIDE, CHANNELS, REGIONS, CELLS = 50, 64, 256, 7
SOUNDS, SAMPLES, WINDOW, HOP = 8, 131_072, 1024, 256


def scored_boxes(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes in an image of 512 pixels, their scores and classes."""
    random = np.random.default_rng(0)
    low = random.uniform(0, 400, (count, 2))
    boxes = np.concatenate([low, low + random.uniform(20, 110, (count, 2))], axis=1)
    return (
        boxes.astype(np.float32),
        random.uniform(size=count).astype(np.float32),
        random.integers(0, CLASSES, count),
    )


def regions(count: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """A feature map, and boxes in its units, all inside."""
    random = np.random.default_rng(1)
    low = random.uniform(1, side / 2, (count, 2))
    boxes = np.concatenate([low, low + random.uniform(2, side / 2 - 2, (count, 2))], axis=1)
    return random.normal(size=(side, side, CHANNELS)).astype(np.float32), boxes.astype(np.float32)


def sound(samples: int) -> np.ndarray:
    """Recordings of noise, (sounds, samples)."""
    return np.random.default_rng(2).uniform(-1, 1, (SOUNDS, samples)).astype(np.float32)
