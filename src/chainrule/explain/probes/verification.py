"""Verification of held-out identities: both errors at several thresholds, and pairs by how far they are turned."""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Bars, Picture, Table
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.targets.identity import angles_of, numbers_of
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import CanEncode, Model
from chainrule.networks.pictures import verification as drawn
from chainrule.probability.classification.verification import cosine_trials, error_rates
from chainrule.train import Run
from chainrule.train.scores.verification import RATES, gallery_search

_BATCH = 100


@final
class VerificationSettings(Settings):
    """Which pairs are looked at."""

    n: Count = Field(1000, description="held-out examples whose pairs are compared")
    turned: float = Field(
        30.0, gt=0, le=90, description="degrees from which on an example counts as turned away"
    )


def examine(run: Run, data: Data, settings: VerificationSettings) -> Outcome:
    """TAR at FAR with the thresholds for it, search in a gallery, and errors by pose where angles are known."""
    model: Any = eqx.nn.inference_mode(run.model)
    part, said = data.held_out()
    x, y = part.batch(np.arange(min(len(part), settings.n)))[:2]
    who = numbers_of(np.asarray(y))
    vectors = _vectors(model, np.asarray(x))
    genuine, impostors = trials = cosine_trials(vectors, who)
    if not len(genuine) or not len(impostors):
        return Outcome([f"{len(np.unique(who))} held-out identities leave no pairs to compare.", *said])
    rates = error_rates(*trials)
    rows = [
        [rate, float(min(rates.threshold_at(rate), 1.0)), rates.true_accept_at(rate)]
        for rate in RATES
        if rate * len(impostors) >= 1
    ]
    search = gallery_search(vectors, who)
    eer = rates.equal_error_rate()
    sentences = [
        f"Equal errors of {eer:.3g} on {len(genuine):,} pairs of one identity and {len(impostors):,} of two, among "
        f"{len(np.unique(who)):,} identities, {int((np.unique(who) >= len(run.schema.classes)).sum()):,} of which "
        "training has not seen.",
        *(
            f"With one impostor in {round(1 / rate):,} accepted, {share:.1%} of the genuine pairs are (from a cosine "
            f"of {cut:.3g} on)."
            for rate, cut, share in rows
        ),
    ]
    if "rank_1" in search:
        sentences.append(
            f"In a gallery with one example of each identity the nearest is the right one {search['rank_1'].value:.1%} "
            "of the time."
        )
    by_pose, pictures = _by_pose(angles_of(np.asarray(y)), vectors, who, settings.turned)
    if by_pose:
        worst = max(by_pose, key=lambda name: by_pose[name])
        sentences.append(f"By pose, equal errors are largest for pairs {worst}: {by_pose[worst]:.3g}.")
    return Outcome(
        [*sentences, *said],
        [*drawn.of_vectors(data, eqx.filter_jit(model.encode)), *pictures],
        Table(
            "verification-table",
            "What thresholds do",
            ["impostors accepted", "cosine of at least", "genuine pairs accepted"],
            rows,
        ),
        {
            "eer": eer,
            "tar_at_far": {f"{rate:g}": share for rate, _, share in rows},
            **{name: metric.value for name, metric in search.items()},
            "eer_by_pose": by_pose,
        },
    )


def _vectors(model: Any, x: np.ndarray) -> np.ndarray:
    encode, size = eqx.filter_jit(model.encode), min(_BATCH, len(x))
    rows = np.resize(np.arange(len(x)), -(-len(x) // size) * size).reshape(-1, size)
    found = np.concatenate([np.asarray(encode(jnp.asarray(x[some]))) for some in rows])[: len(x)].astype(
        np.float64
    )
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)


def _by_pose(
    angles: np.ndarray | None, vectors: np.ndarray, who: np.ndarray, most: float
) -> tuple[dict[str, float], list[Picture]]:
    """The equal error rate of pairs from the front, of one from the side with one from the front, and of two sides."""
    if angles is None:
        return {}, []
    away = abs(angles) >= most
    first, second = np.triu_indices(len(who), 1)
    cosine, same = (vectors[first] * vectors[second]).sum(axis=1), who[first] == who[second]
    count = away[first].astype(int) + away[second]
    found = {}
    for turned, name in enumerate(("both from the front", "one of them turned", "both turned")):
        own = count == turned
        if (own & same).any() and (own & ~same).any():
            found[name] = error_rates(cosine[own & same], cosine[own & ~same]).equal_error_rate()
    if not found:
        return {}, []
    bars = Bars(
        "pose",
        f"Equal errors by pose, turned from {most:g} degrees on",
        "pairs",
        "equal error rate",
        list(found),
        {"held out": np.array(list(found.values()))},
    )
    return found, [bars]


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanEncode) and targets.of(schema).has_identity


probe = Probe(
    "Verification of identities that training has not seen: errors, thresholds, poses, the worst pairs.",
    "a model that gives vectors to images of identities",
    _applies,
    examine,
    VerificationSettings,
    toy={"n": 60},
)

__all__ = ["VerificationSettings", "examine", "probe"]
