"""Divergences and distances: of arrays of probabilities, of distributions, of samples.

Short names (`js`, `tv`, `kl`, ...) take either two arrays of probabilities along the last axis or two distributions;
the long ones (`jensen_shannon`, `total_variation`, ...) take arrays. `game` has the game behind adversarial training.
"""

from chainrule.probability.divergences import game
from chainrule.probability.divergences.between import (
    bhattacharyya,
    chi2,
    cross_entropy,
    hellinger,
    jeffreys,
    js,
    kl,
    lp,
    renyi,
    tv,
)
from chainrule.probability.divergences.comparison import Compared, DistanceEntry, compare, distances
from chainrule.probability.divergences.couplings import maximal_coupling, tv2
from chainrule.probability.divergences.f_divergences import FDivergence, f_divergences
from chainrule.probability.divergences.kernel_mean import median_distance, mmd
from chainrule.probability.divergences.own import register
from chainrule.probability.divergences.profiles import (
    BandwidthSweep,
    Profile,
    profile,
    silverman,
    slide,
    smooth,
    stretch,
)
from chainrule.probability.divergences.vectors import (
    chi_square,
    entropy,
    jensen_shannon,
    kl_from_logits,
    most_telling_event,
    potential,
    total_variation,
    wasserstein,
)

__all__ = [
    "BandwidthSweep",
    "Compared",
    "DistanceEntry",
    "FDivergence",
    "Profile",
    "bhattacharyya",
    "chi2",
    "chi_square",
    "compare",
    "cross_entropy",
    "distances",
    "entropy",
    "f_divergences",
    "game",
    "hellinger",
    "jeffreys",
    "jensen_shannon",
    "js",
    "kl",
    "kl_from_logits",
    "lp",
    "maximal_coupling",
    "median_distance",
    "mmd",
    "most_telling_event",
    "potential",
    "profile",
    "register",
    "renyi",
    "silverman",
    "slide",
    "smooth",
    "stretch",
    "total_variation",
    "tv",
    "tv2",
    "wasserstein",
]
