"""What an audit of a flow finds: errors of its layers, its total probability, and what to do where something is off."""

from typing import NamedTuple

SINGLE, DOUBLE = 1e-4, 1e-9
"""How far off, as a share of values above one, computations in either precision may be."""
_FEWEST = 100.0
"""With fewer effective draws than this an estimate says nothing."""
_SLACK = 0.01
"""How far from one the sum over a grid may be: it ends somewhere, and cells have a width."""


class Mass(NamedTuple):
    """The total probability that was found."""

    value: float
    standard_error: float
    """Of weighted draws; 0 on a grid."""
    effective: float
    """Of weighted draws, how many count; on a grid, how many points it has."""
    method: str

    @property
    def conclusive(self) -> bool:
        """Whether enough draws count for the number to say anything."""
        return self.method == "grid" or self.effective >= _FEWEST

    @property
    def is_off(self) -> bool:
        """Whether the total is another than one by more than its error."""
        slack = _SLACK + 4 * self.standard_error
        return self.conclusive and not abs(self.value - 1) <= slack

    @property
    def words(self) -> str:
        """The finding in a few words."""
        if self.method == "grid":
            return f"total probability {self.value:.4f} on a grid of {self.effective:,.0f} points"
        if not self.conclusive:
            return f"total probability not known: of the weighted draws only {self.effective:.0f} count"
        return f"total probability {self.value:.3f} ± {self.standard_error:.3f} by weighted draws"


class LayerAudit(NamedTuple):
    """What was found of one layer, or of a whole flow; numbers that were not computed are not numbers."""

    name: str
    inverse_error: float
    """Largest `|x - T(T⁻¹(x))|`, as a share of |x| where that is above one."""
    converse_error: float
    """Largest `|z - T⁻¹(T(z))|`, likewise."""
    volume_sum: float
    """Largest sum of the logarithms of the volumes of both directions."""
    volume_error: float
    """Largest distance of the logarithm of the volume from that of the Jacobian's determinant."""
    largest_log_scale: float
    """Largest |logarithm| of a singular value of the Jacobian."""
    condition: float
    """Largest singular value over the smallest, at the worst example."""
    triangularity: float
    """Of an autoregressive layer, the largest entry of the Jacobian above its diagonal."""
    non_finite: float
    """Share of values that are not finite."""

    def failures(self, tolerance: float) -> list[str]:
        """What is off by more than the tolerance, in words."""
        found = [
            (self.inverse_error, "data are not found again from their codes"),
            (self.converse_error, "codes are not found again from their data"),
            (self.volume_sum, "the volumes of the two directions do not cancel"),
            (self.volume_error, "the volume is not that of the Jacobian"),
            (self.triangularity, "an entry depends on later ones"),
        ]
        words = [f"{what}: off by {error:.2g}" for error, what in found if error > tolerance]
        if self.non_finite > 0:
            words.append(f"{self.non_finite:.2%} of its values are not finite")
        return words


class Audit(NamedTuple):
    """The findings of an audit."""

    layers: tuple[LayerAudit, ...]
    """From codes to data."""
    whole: LayerAudit
    """The flow at the examples."""
    far: LayerAudit
    """The flow at codes at a distance of three from zero."""
    mass: Mass
    """Total probability."""
    tolerance: float
    far_layers: tuple[LayerAudit, ...] = ()
    """Where something is off so far out, the layers in which it is."""

    @property
    def parts(self) -> tuple[LayerAudit, ...]:
        """Every layer, the whole flow, and what was found far out."""
        return (*self.layers, self.whole, self.far, *self.far_layers)

    @property
    def failures(self) -> list[str]:
        """Every failure, with the layer it was found in; empty where all is well."""
        found = [f"{part.name}: {words}" for part in self.parts for words in part.failures(self.tolerance)]
        return found + ([f"whole flow: {self.mass.words}"] if self.mass.is_off else [])

    @property
    def remedy(self) -> str:
        """What to do where something failed."""
        if not self.failures:
            return ""
        rounding = (
            "" if self.tolerance < SINGLE else "; in double precision it is seen whether it is rounding"
        )
        return f"bound the scales of layers more tightly or use fewer layers{rounding}"


__all__ = ["DOUBLE", "SINGLE", "Audit", "LayerAudit", "Mass"]
