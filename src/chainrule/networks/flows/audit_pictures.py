"""The audit of a flow as a table: a row for each layer, the whole flow and codes far out."""

from chainrule.core.pictures import Table
from chainrule.networks.flows.findings import Audit, LayerAudit

_MOST = 100
"""Of more layers, those in which nothing is off have no row."""
_ERRORS = ("|x - T(T⁻¹x)|", "|z - T⁻¹(Tz)|", "volumes", "Jacobian", "mask")


def audit_table(found: Audit) -> Table:
    """What was found, and what to do where something is off."""
    verdict = "; ".join(found.failures) if found.failures else "Nothing is off by more than the tolerance"
    remedy = f" {found.remedy[0].upper()}{found.remedy[1:]}." if found.failures else ""
    quiet = [part for part in found.layers if not part.failures(found.tolerance)]
    left = quiet if len(found.layers) > _MOST else []
    short = f" {len(left)} layers in which nothing is off have no row." if left else ""
    return Table(
        "audit",
        "Audit: inverse and volumes",
        ["", *_ERRORS, "log-scale", "condition", "not finite"],
        [_row(part) for part in found.parts if part not in left],
        caption=f"Largest errors at held-out examples, as a share of values above one; tolerance {found.tolerance:g}. "
        "Volumes: those of both directions together; mask: how much entries of an autoregressive layer depend on later "
        "ones. "
        f"{found.mass.words[0].upper()}{found.mass.words[1:]}. {verdict}.{remedy}{short}",
    )


def _row(part: LayerAudit) -> list[str]:
    there = part.inverse_error, part.converse_error
    errors = (*there, part.volume_sum, part.volume_error, part.triangularity)
    scales = (part.largest_log_scale, part.condition)
    shown = [f"{value:.1e}" for value in errors] + [f"{value:.3g}" for value in scales]
    return [part.name, *("" if text == "nan" else text for text in shown), f"{part.non_finite:.2%}"]


__all__ = ["audit_table"]
