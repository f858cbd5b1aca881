"""Transfer: from what was learnt on one problem to another.

A domain is a space of inputs with a distribution on it, a task is labels with the function that gives them; what is
known is the source, what is wanted the target. `DomainPair` holds the two and keeps target labels back that are there
to judge by; the rest weighs, selects and aligns examples, measures how far domains are apart, and says what can be
promised.
"""

from typing import Any

from chainrule.core.lazy import LazyNames

_LAZY = LazyNames(
    __name__,
    {
        "adaptation": ("AdaptationReport", "adaptation_report", "leave_one_out"),
        "alignment": (
            "CovarianceAlignment",
            "TransferComponents",
            "TransportAlignment",
            "coral",
            "transfer_components",
            "transport_alignment",
        ),
        "bounds": (
            "AdaptationBound",
            "finite_bound",
            "h_divergence",
            "sampling_slack",
            "symmetric_difference_divergence",
        ),
        "choosing": ("DomainChoice", "choose"),
        "class_shares": ("LabelShift", "label_shift"),
        "density_ratios": ("classifier_ratio", "least_squares_ratio"),
        "distances": ("domain_distances", "energy_distance", "pair_divergence", "proxy_distance"),
        "domain_classifier": ("DomainJudgement", "judge_domains"),
        "domains": ("DomainPair", "DomainTask", "PairBatch", "PairBatches", "TargetScore"),
        "features": (
            "FeatureScore",
            "LabelledFeatures",
            "LayerScores",
            "judge_features",
            "judge_layers",
            "layer_features",
        ),
        "fine_tuning": ("fine_tune",),
        "heads": ("replace_head", "train_head"),
        "importance": ("ImportanceWeights", "effective_size", "importance_weights"),
        "mean_matching": ("MatchedMeans", "match_means"),
        "normalisation": ("domain_statistics",),
        "selection": ("Selection", "select"),
        "several_sources": ("GroupRobustLoss", "SourceMixture", "mix_sources"),
        "sharing": ("SharedTrunk", "TaskWeights", "inserted", "removed", "soft_sharing", "tied", "widened"),
        "transferability": ("LayerTransfer", "TaskExamples", "layer_transfer", "split_classes"),
    },
    ("augmentation",),
)

__all__ = [*_LAZY.names]


def __getattr__(name: str) -> Any:
    return _LAZY.load(name)


def __dir__() -> list[str]:
    return __all__
