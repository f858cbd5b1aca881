"""Signs that gradients are masked: then attacks fail because they are led astray, and not because a network is robust.

Athalye, Carlini and Wagner, *Obfuscated gradients give a false sense of security*, ICML 2018 (arXiv:1802.00420);
Carlini et al., *On evaluating adversarial robustness*, 2019 (arXiv:1902.06705).
"""

from collections.abc import Mapping, Sequence

import numpy as np

SUSPECTED = "gradient masking suspected, numbers are not evidence of robustness"
NOISE, ONE_STEP, MANY_STEPS, OWN_STEPS, BLACK_BOX = (
    "noise",
    "one step",
    "many steps",
    "own steps",
    "black box",
)
"""What curves of these attacks are called."""
_SLACK, _FEW = 0.01, 2
"""Share of the examples, and how many of them, that chance may decide."""
_ROUNDING = 1e-9


def slack(count: int) -> float:
    """By how much accuracies on so many examples may differ before that means something.

    >>> slack(1000), slack(50)
    (0.01, 0.04)
    """
    return max(_SLACK, _FEW / count)


def alarms(
    eps: Sequence[float] | np.ndarray,
    accuracy: Mapping[str, np.ndarray],
    count: int,
    unlimited: float | None = None,
) -> list[str]:
    """Every sign of masked gradients, as a sentence.

    `accuracy` has a curve over `eps` for each attack by name, `unlimited` is that under the iterated attack where the
    largest change there can be is allowed.
    """
    found = []
    pairs = (
        (ONE_STEP, MANY_STEPS, "many steps are weaker than a single one"),
        (BLACK_BOX, MANY_STEPS, "an attack by queries alone is stronger than one by gradients"),
        (NOISE, ONE_STEP, "random noise is stronger than a step up the gradient"),
        (NOISE, MANY_STEPS, "random noise is stronger than many steps up the gradient"),
    )
    for better, worse, meaning in pairs:
        if better not in accuracy or worse not in accuracy:
            continue
        gap = accuracy[worse] - accuracy[better]
        at = int(gap.argmax())
        if gap[at] > slack(count) + _ROUNDING:
            weak, strong = accuracy[worse][at], accuracy[better][at]
            found.append(f"At eps = {eps[at]:.4g} {meaning}: accuracy {weak:.1%} against {strong:.1%}.")
    if unlimited is not None and unlimited > slack(count):
        found.append(
            f"With every change allowed accuracy is still {unlimited:.1%}: the attack does not find what must be there."
        )
    return found


__all__ = ["BLACK_BOX", "MANY_STEPS", "NOISE", "ONE_STEP", "OWN_STEPS", "SUSPECTED", "alarms", "slack"]
