"""Training steps of a perceptron, five convolutions and a U-Net by SGD and by Adam: ours against PyTorch's best form.

As `nn`, which has more networks and one rule.
"""

from benchmarks.harness import Options, Report
from benchmarks.suite import nn

CHOICES = ("mlp", "conv", "unet")


def run(options: Options) -> Report:
    """Measure the three networks, or one, by both rules."""
    names = CHOICES if options.case is None else (options.case,)
    return nn.compared([(name, rule) for name in names for rule in nn.RATES], options, list(nn.TORCH))
