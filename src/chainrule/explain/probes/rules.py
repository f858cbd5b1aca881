"""Rules that reproduce what a model says about rows of numbers, and how faithfully they do."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core.formatting import number
from chainrule.core.pictures import Bars, Footnote, Table
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.input_groups import groups_of
from chainrule.explain.methods.prediction_losses import can_be_judged, raw_targets
from chainrule.explain.methods.raw_rows import raw_rows
from chainrule.explain.methods.rules.extraction import LEAST_FIDELITY, RuleSet, extract_rules
from chainrule.explain.methods.run_outputs import output_function
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import Model
from chainrule.train import Run


@final
class RulesSettings(Settings):
    """How long rules may be, and on what they are fitted."""

    depth: int = Field(4, ge=1, le=12, description="thresholds one after another, at most")
    n: Count = Field(2000, description="training examples that rules are fitted to")
    perturbed: int = Field(
        2, ge=0, le=100, description="further examples made of each, so that rules hold nearby"
    )
    seed: int = Field(0, ge=0, description="of these, and of the examples that are held out")
    force: bool = Field(False, description="show rules that reproduce less than 90 % of what the model says")


def examine(run: Run, data: Data, settings: RulesSettings) -> Outcome:
    """The rules, their fidelity to the model, and how right both are."""
    rows = raw_rows(run, data.train, settings.n)
    target = targets.of(run.schema)
    kind = "probability" if target.one_class else "value"
    function = output_function(run, data, kind)
    names = data.schema.columns or groups_of(data).names
    y = raw_targets(run, rows.y)
    found = extract_rules(
        function,
        rows.x.reshape(len(rows.x), -1),
        y,
        names=names,
        classes=function.names if target.one_class else None,
        depth=settings.depth,
        perturbed=settings.perturbed,
        seed=settings.seed,
        force=settings.force,
    )
    return _presented(found, settings, target.one_class)


def _presented(found: RuleSet, settings: RulesSettings, of_classes: bool) -> Outcome:
    """Rules and their fidelity as sentences, a picture and a table."""
    share = (
        "agree with the model on {:.1%} of held-out rows" if of_classes else "explain {:.1%} of its variance"
    )
    right = "accuracy" if of_classes else "R² on the targets"
    warn = "" if found.is_faithful else f"less than {LEAST_FIDELITY:.0%}: no explanation, shown by force"
    note = Footnote(
        f"fidelity {number(found.fidelity, 3)} on held-out rows, {number(found.fidelity_perturbed, 3)} on perturbed "
        f"ones{'; ' + warn if warn else ''}",
        alarm=bool(warn),
    )
    judged = "agreement" if of_classes else "off by"
    shown: list[tuple[str, str, float, float]] = [
        (" and ".join(rule.conditions) or "always", rule.answer, rule.share, abs(rule.agreement))
        for rule in found.rules
    ]
    return Outcome(
        [
            f"{len(found.rules)} rules of at most {settings.depth} conditions {share.format(found.fidelity)}"
            f" ({number(found.fidelity_perturbed, 3)} on perturbed rows){': ' + warn if warn else ''}.",
            f"The {right} of the rules is {number(found.accuracy or 0.0, 3)}, that of the model "
            f"{number(found.own_accuracy or 0.0, 3)}.",
            *(f"{str(rule)[0].upper()}{str(rule)[1:]}." for rule in found.rules[:3]),
        ],
        [
            Bars(
                "rules-shares",
                "How many rows each rule decides",
                "rule",
                "share of rows",
                [f"{i + 1}: {rule.answer}" for i, rule in enumerate(found.rules)],
                {"share": np.array([rule.share for rule in found.rules])},
                footnote=note,
            )
        ],
        Table("rules", "Rules, exactly one of which holds", ["if", "then", "share of rows", judged], shown),
        {
            "fidelity": found.fidelity,
            "fidelity_perturbed": found.fidelity_perturbed,
            "accuracy": found.accuracy,
            "model_accuracy": found.own_accuracy,
            "rules": [str(rule) for rule in found.rules],
        },
    )


def _applies(model: Model, schema: Schema) -> bool:
    target = targets.of(schema)
    one = target.one_class or (target.has_values and target.outputs(schema) == 1)
    return can_be_judged(model, schema) and one and kinds.of(schema).has_rows and len(schema.shape) == 1


probe = Probe(
    "Rules: a small decision tree fitted to the model's own answers, with its fidelity; refused below 90 %.",
    "a model that predicts one class or one value from rows of numbers",
    _applies,
    examine,
    RulesSettings,
    toy={"n": 60, "perturbed": 1, "force": True, "depth": 2},
)

__all__ = ["RulesSettings", "examine", "probe"]
