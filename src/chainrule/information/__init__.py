"""Information: how much there is, how much of it passes, what it costs to store, what samples tell about it.

Names are loaded when they are first used. No module here has the name of a function: the module would hide it.
"""

from typing import Any

from chainrule.core.lazy import LazyNames

_LAZY = LazyNames(
    __name__,
    {
        "bottleneck_variants": (
            "BottleneckIdentity",
            "PredictiveTable",
            "ThreeTermBottleneck",
            "bottleneck_identity",
            "predictive_table",
            "three_term_bottleneck",
        ),
        "bottlenecks": (
            "Bottleneck",
            "BottleneckCurve",
            "bottleneck",
            "bottleneck_curve",
            "first_transition",
        ),
        "chain_rates": (
            "ChainInformation",
            "InformationProfile",
            "chain_information",
            "chain_of",
            "entropy_rate",
            "erasure_entropy",
            "information_profile",
            "information_rate",
            "noisy_cycle",
            "predictive_information_rate",
        ),
        "channels": (
            "Capacity",
            "binary_symmetric",
            "capacity",
            "erasure",
            "noisy_typewriter",
            "z_channel",
        ),
        "codewords": ("CodewordChoice", "codeword_choice"),
        "compression.compressing": ("CompressionReport", "compress", "decompress"),
        "compression.sources": ("HasCode",),
        "critics": ("Critic",),
        "distortion": (
            "RateDistortionPoint",
            "RateDistortionCurve",
            "WaterFilling",
            "gaussian_rate_distortion",
            "rate_at",
            "rate_distortion",
            "rate_distortion_curve",
            "shannon_lower_bound",
        ),
        "divergences": ("DivergenceEstimate", "divergence_estimate"),
        "entropies": (
            "chain_rule",
            "conditional_entropy",
            "cross_entropy",
            "entropy",
            "gaussian_mutual_information",
            "interaction_information",
            "mutual_information",
        ),
        "estimates.estimate": (
            "MutualInformationPanel",
            "mutual_information_estimate",
            "mutual_information_panel",
        ),
        "estimates.processing": ("ProcessingCheck", "check_processing"),
        "estimates.result": ("MutualInformationEstimate",),
        "gaussian_bottlenecks": ("GaussianBottleneck", "gaussian_bottleneck"),
        "gaussian_series": ("GaussianRates", "autocovariances", "gaussian_rates"),
        "phrases": ("PhraseTree", "phrase_tree"),
        "gaussian_outputs": ("OutputInformation", "dataset_information", "output_information"),
        "plane": ("LayerInformation", "layer_information"),
        "sequence_rates": ("SequenceInformation", "sequence_information_rate"),
        "processing": ("DataProcessing", "data_processing"),
        "samples": ("BlockEntropies", "EntropyEstimate", "block_entropies", "entropy_estimate"),
        "typical": ("TypicalSet", "typical_set"),
        "entropy_coders": ("entropy_decode", "entropy_encode"),
        "two_part_codes": ("CodeReport", "code_report"),
    },
)

__all__ = _LAZY.names


def __getattr__(name: str) -> Any:
    return _LAZY.load(name)


def __dir__() -> list[str]:
    return __all__
