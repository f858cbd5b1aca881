"""Optimal transport between sets of points."""

from chainrule.probability.transport.colors import ColorTransfer, transfer_colors
from chainrule.probability.transport.costs import cost_matrix
from chainrule.probability.transport.duality import (
    Bounds,
    bounds,
    c_transform,
    lipschitz_constant,
    rounded,
    slack,
)
from chainrule.probability.transport.exact import ExactTransport, exact, wasserstein
from chainrule.probability.transport.maps import (
    Cloud,
    Matches,
    barycentric_map,
    displacement,
    top_matches,
    transfer_labels,
)
from chainrule.probability.transport.marginals import Entries
from chainrule.probability.transport.monge import MongeMap, monge
from chainrule.probability.transport.normals import (
    EntropicNormals,
    NormalTransport,
    entropic_normals,
    normal_transport,
)
from chainrule.probability.transport.one_dimensional import monotone_coupling, wasserstein_1d
from chainrule.probability.transport.sinkhorn import (
    Divergence,
    TransportPlan,
    entropic,
    entropic_to_itself,
    sinkhorn_divergence,
    usual_epsilon,
)
from chainrule.probability.transport.sliced import Slices, max_sliced, sliced, slices

__all__ = [
    "Bounds",
    "Cloud",
    "ColorTransfer",
    "Divergence",
    "Entries",
    "EntropicNormals",
    "ExactTransport",
    "Matches",
    "MongeMap",
    "NormalTransport",
    "Slices",
    "TransportPlan",
    "barycentric_map",
    "bounds",
    "c_transform",
    "cost_matrix",
    "displacement",
    "entropic",
    "entropic_normals",
    "entropic_to_itself",
    "exact",
    "lipschitz_constant",
    "max_sliced",
    "monge",
    "monotone_coupling",
    "normal_transport",
    "rounded",
    "sinkhorn_divergence",
    "slack",
    "sliced",
    "slices",
    "top_matches",
    "transfer_colors",
    "transfer_labels",
    "usual_epsilon",
    "wasserstein",
    "wasserstein_1d",
]
