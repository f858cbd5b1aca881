"""What a method of adaptation gained, in words, bars and numbers."""

from typing import Any

import numpy as np

from chainrule.core.pictures import Bars, Table
from chainrule.explain.protocol import Outcome
from chainrule.transfer.adaptation import AdaptationReport


def compared(found: AdaptationReport, source: str, target: str, seeds: int) -> Outcome:
    """The verdict first, then the accuracies it rests on."""
    intervals = {name: found.interval(found.judged(name)) for name in found.accuracy}
    single = "one seed says nothing of how others end: compare several with `chainrule probe RUN baselines`"
    means_over = "Test examples of one seed" if seeds == 1 else f"Means over {seeds} seeds"
    of_mean = "over test examples" if seeds == 1 else "of the mean over seeds"
    rows: list[list[Any]] = [
        [name, f"{mean:.1%} ± {half:.1%}", f"{found.source_accuracy[name].mean():.1%}"]
        for name, (mean, half) in intervals.items()
    ]
    gain, half = found.gain
    means = {name: mean for name, (mean, _) in intervals.items()}
    return Outcome(
        [
            f"{found.verdict[0].upper()}{found.verdict[1:]}.",
            f"On {target}: {means['source only']:.1%} with the source alone, {means['method']:.1%} with the method, "
            f"{means['oracle']:.1%} with all targets.",
            *([f"The interval is that of the test examples; {single}."] if seeds == 1 else []),
        ],
        [
            Bars(
                "baselines",
                f"{source} to {target}",
                "training",
                "share of the target correct",
                list(found.accuracy),
                {"target": np.array(list(means.values()))},
                errors={"target": np.array([width / 2 for _, width in intervals.values()])},
                caption=f"{means_over}; lines: their 95 % intervals. The oracle learns from all targets of the target.",
            )
        ],
        Table(
            "baselines-table",
            "Accuracy on test examples",
            ["training", "target", "source"],
            rows,
            f"± is the 95 % interval {of_mean}.",
        ),
        {
            "verdict": found.verdict,
            "gain": gain,
            "half_width": half,
            "negative": found.is_negative,
            "seeds": seeds,
            "accuracy": {name: values.tolist() for name, values in found.accuracy.items()},
        },
    )


__all__ = ["compared"]
