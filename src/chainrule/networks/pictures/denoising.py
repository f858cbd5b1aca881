"""Samples of a denoising model step by step: a strip of one of them, a film of all."""

import numpy as np
from jaxtyping import Float

from chainrule.core.pictures import SMOOTH_UP_TO, Film, Images

_FRAMES = 10
_MOMENTS = 26

_Noisy = Float[np.ndarray, "moments n height width channels"]
_Estimates = Float[np.ndarray, "steps n height width channels"]


def strip(noisy: _Noisy, estimates: _Estimates, lams: Float[np.ndarray, " steps"]) -> Images:
    """The first sample at a few steps; pixels lie in [0, 1]."""
    count = min(_FRAMES, len(lams))
    shown = np.linspace(0, len(lams) - 1, count).round().astype(int)
    pixels = np.concatenate([noisy[shown, 0], estimates[shown, 0]])
    labels = [f"lam {lam:.1f}" for lam in lams[shown]] + [""] * count
    return Images("denoising", "From noise to data", pixels, labels, count, _caption(len(lams)))


def film(noisy: _Noisy, estimates: _Estimates, lams: Float[np.ndarray, " steps"]) -> Film:
    """All samples, moving; the last moment is the samples themselves."""
    shown = np.unique(np.linspace(0, len(lams), min(_MOMENTS, len(lams) + 1)).round().astype(int))
    # The samples are the last estimate: the last step goes there.
    taken = np.minimum(shown, len(lams) - 1)
    frames = np.concatenate([noisy[shown], estimates[taken]], axis=1)
    labels = [f"lam {lams[i]:.1f}" if i < len(lams) else "done" for i in shown]
    return Film(
        "denoising-film",
        "From noise to data, moving",
        frames,
        labels,
        frames.shape[1] // 2,
        caption=_caption(len(lams)),
        smooth=max(frames.shape[2:4]) <= SMOOTH_UP_TO,
    )


def _caption(steps: int) -> str:
    return f"DDIM in {steps} steps. Above: the image on its way; below: what the network takes it for."


__all__ = ["film", "strip"]
