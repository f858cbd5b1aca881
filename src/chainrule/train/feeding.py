"""Whether a split can be fed to training as its settings ask for."""

from chainrule.core.errors import ArgumentError
from chainrule.data.splits import Split
from chainrule.train.config import TrainConfig


def check_feeding(split: Split, config: TrainConfig, kept: bool) -> None:
    """Refuse empty micro-batches, streams in batches of another size, and coins for data not `kept` on the device."""
    if config.accumulate > config.batch:
        raise ArgumentError(
            f"accumulate={config.accumulate}: a batch of {config.batch} has no {config.accumulate} micro-batches",
            remedy=f"use accumulate={config.batch} or less, or a larger batch",
        )
    if split.streams and (config.batch != split.streams or config.accumulate != 1 or config.drop_last):
        raise ArgumentError(
            f"batch={config.batch}, accumulate={config.accumulate}, drop_last={str(config.drop_last).lower()}: "
            f"the text is read in {split.streams} streams",
            remedy=f"use batch={split.streams} accumulate=1 drop_last=false, or another data.streams",
        )
    if split.changes and not kept:
        raise ArgumentError(
            f"these data are too large to be kept on the device, where training changes them: {split.change.what}",
            remedy=split.change.remedy,
        )


__all__ = ["check_feeding"]
