"""Training settings that suit variational auto-encoders of all kinds."""

from typing import Any

TRAINING: dict[str, Any] = {
    "batch": 128,
    "ema": 0.999,
    "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.01, "clip": 1.0},
    "schedule": {"name": "cosine"},
}

__all__ = ["TRAINING"]
