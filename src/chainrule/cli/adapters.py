"""Low-rank adapters on the command line: `lora=` and `lora_strength=` of every verb that puts a run to work."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainrule.train import Run

WORDS = ("lora", "lora_strength")
USAGE = "lora=RUN or FILE.safetensors (several with commas), lora_strength=1"


def with_adapters(run: "Run", given: Mapping[str, str], folder: Path) -> "Run":
    """The run with the adapters that its words name, each as strong as they say."""
    from chainrule.cli.folders import find
    from chainrule.core.errors import ArgumentError

    if not any(word in given for word in WORDS):
        return run
    words = [word.strip() for word in given.get("lora", "").split(",") if word.strip()]
    if "lora" in given and not words:
        raise ArgumentError("lora= needs a value", remedy=USAGE)
    sources = [Path(word) if word.endswith(".safetensors") else find(word, folder) for word in words]
    text = given.get("lora_strength", "1")
    try:
        strengths = [float(word) for word in text.split(",")]
    except ValueError:
        raise ArgumentError(
            f"lora_strength={text}: numbers with commas between them", remedy="1 is what was trained"
        ) from None
    return run.with_lora(*sources, strength=strengths)


def beside_start(train: dict[str, Any], fresh: Sequence[str] | None) -> dict[str, Any]:
    """Training settings whose adapters have trained weights to stand beside; fresh layers learn as a whole.

    `fresh` are the layers that begin afresh in a run that begins with another, nothing in one that does not.
    """
    from chainrule.core.errors import ArgumentError

    chosen = train.get("lora", {})
    if not chosen.get("rank"):
        return train
    if fresh is None:
        raise ArgumentError(
            f"lora.rank={chosen['rank']}: adapters learn beside trained weights, which stay as they are",
            remedy="name the run to begin with: from=RUN",
        )
    whole = tuple(dict.fromkeys((*chosen.get("whole", ()), *fresh)))
    return {**train, "lora": {**chosen, "whole": whole}} if whole else train


__all__ = ["USAGE", "WORDS", "beside_start", "with_adapters"]
