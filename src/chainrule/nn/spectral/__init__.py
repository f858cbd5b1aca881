"""Sound as time and frequency: short-time Fourier transforms and their exact inverse, mel bands, masks, separation.

Signals have their samples on the last axis and any axes before it; spectra end in (bins, frames). Everything can be
differentiated and compiled.
"""

from chainrule.nn.spectral.masks import apply_mask, ideal_binary_mask, ideal_complex_mask, ideal_ratio_mask
from chainrule.nn.spectral.mel import hertz_to_mel, mel_filters, mel_spectrogram, mel_to_hertz
from chainrule.nn.spectral.phase import griffin_lim
from chainrule.nn.spectral.separation import best_order, si_sdr, si_sdr_bounded
from chainrule.nn.spectral.transform import STFT, decibels, magnitude, power, window

__all__ = [
    "STFT",
    "apply_mask",
    "best_order",
    "decibels",
    "griffin_lim",
    "hertz_to_mel",
    "ideal_binary_mask",
    "ideal_complex_mask",
    "ideal_ratio_mask",
    "magnitude",
    "mel_filters",
    "mel_spectrogram",
    "mel_to_hertz",
    "power",
    "si_sdr",
    "si_sdr_bounded",
    "window",
]
