"""Latent variables: rate and distortion, the use that is made of the code, and the likelihood by importance weights."""

import re
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from chainrule.core import progress, random
from chainrule.core.compiling import compiled
from chainrule.core.formatting import short_number
from chainrule.core.types import Array, Key
from chainrule.data.batches import Batch
from chainrule.data.splits import Subset
from chainrule.models.protocol import CanSample, HasLatents, HasLevels, LatentUse
from chainrule.models.protocol.latents import IDLE
from chainrule.probability.variational import estimate_evidence
from chainrule.train.evaluation import batches, over
from chainrule.train.scores.exact_likelihood import likelihood
from chainrule.train.scoring import Evaluation, Metric, Score, mean

CODES = 100
"""Codes of each example for the estimate of its likelihood unless told; papers use 5,000."""
_COMPARED = 1024
"""Examples whose codes are compared with each other."""
_CHUNK = 100
"""Codes of each example that are in memory at a time, at most."""
_IN_MEMORY = 2**22
"""Numbers of decoded examples that are in memory at a time, about."""
_HEAVY = 0.7
"""Shape of the tail of the weights above which their mean is not to be trusted (Vehtari et al., 2024)."""
_ALIKE = 0.9
"""Share of effective codes above which the tail of the weights is of no interest."""


def rate_and_distortion(evaluation: Evaluation) -> dict[str, Metric]:
    """Both parts of the bound: what the code costs, and what is left once it is known."""
    rate, distortion = over(
        "rate and distortion",
        lambda model, batch, key: model.rate_and_distortion(batch, key),
        *(evaluation.model, evaluation.split, evaluation.key),
    )
    kind = f"bound{_given(evaluation)}"
    note = evaluation.model.rate_note if isinstance(evaluation.model, HasLatents) else ""
    return {
        "rate": mean(rate, "nats", f"{kind}, {note}" if note else kind),
        **level_rates(evaluation),
        "distortion": mean(evaluation.data.nats(-distortion), "nats", kind),
    }


def level_rates(evaluation: Evaluation) -> dict[str, Metric]:
    """What each level of the code adds to the rate, by the same draws; nothing for a code without levels."""
    if not isinstance(evaluation.model, HasLevels):
        return {}
    found = over(
        "rate by level",
        lambda model, batch, key: model.level_rates(batch, key),
        *(evaluation.model, evaluation.split, evaluation.key),
    )
    return {f"rate_{name}": mean(rate, "nats", "bound") for name, rate in found.items()}


def _given(evaluation: Evaluation) -> str:
    model = evaluation.model
    return " given y" if isinstance(model, CanSample) and model.conditional else ""


def use(evaluation: Evaluation) -> dict[str, Metric]:
    """Active units, information between example and code, and how the rest of the rate is made up."""
    model, split = evaluation.model, evaluation.split
    assert isinstance(model, HasLatents), "ask what applies first"
    few = split if len(split) <= _COMPARED else Subset.drawn(split, _COMPARED)
    batch = few.batch(np.arange(len(few)))
    found = _use_of(model, batch, random.named(evaluation.key, "use"))
    compared = len(few) if found.compared is None else int(found.compared)
    size, kind = len(found.spread), f"estimate, at most log {compared:,}"
    context = _context_of(model, batch, random.named(evaluation.key, "context"))
    more = (
        {}
        if context is None
        else {"context_nats": mean(np.asarray(context), "nats that entries before tell")}
    )
    return more | {
        "active_units": Metric(float(np.asarray(found.active).sum()), f"of {size}"),
        "mutual_information": Metric(float(found.information), "nats", kind=kind),
        "marginal_divergence": Metric(float(found.marginal_divergence), "nats", kind="estimate"),
        "total_correlation": Metric(float(found.total_correlation), "nats", kind="estimate"),
        "decoder_sensitivity": Metric(float(found.sensitivity), "of the data's variance"),
    }


@compiled
def _use_of(model: HasLatents, batch: Batch, key: Key) -> LatentUse:
    return model.latent_use(batch, key)


@compiled
def _context_of(model: HasLatents, batch: Batch, key: Key) -> Array | None:
    return model.context_nats(batch, key)


def estimate(evaluation: Evaluation) -> dict[str, Metric]:
    """The likelihood from importance weights, in expectation a bound; and how far the weights are to be trusted."""
    model, split, codes = evaluation.model, evaluation.split, evaluation.k or CODES
    assert isinstance(model, HasLatents), "ask what applies first"
    chunk = max(1, min(_CHUNK, codes))
    size = max(1, min(512, _IN_MEMORY // (chunk * evaluation.data.schema.dimensions)))
    parts, done = [], 0
    for number, (batch, ours) in enumerate(batches(split, filled=True, size=size)):
        key = random.at(random.named(evaluation.key, "codes"), number)
        found = estimate_evidence(_weights, key, model, batch, samples=codes, chunk=chunk, warn=False)
        report = found.weights
        columns = (report.log_mean, report.standard_error, report.effective_sample_size, report.pareto_k)
        parts.append([np.asarray(column)[:ours] for column in columns])
        done += ours
        progress.update("likelihood", done, len(split))
    log_prob, error, effective, tail = (np.concatenate(column) for column in zip(*parts, strict=True))
    note = f", {model.likelihood_note}" if model.likelihood_note else ""
    kind = f"estimate{_given(evaluation)}, k={codes:,}{note}"
    metrics = {
        f"{name}_estimate": value for name, value in likelihood(log_prob, evaluation.data, kind).items()
    }
    return metrics | {
        **estimate_error(error),
        "effective_codes": mean(effective, f"of {codes:,}"),
        # Weights that are all but alike have no tail that matters.
        "heavy_tailed": mean(
            ((tail > _HEAVY) & (effective < _ALIKE * codes)).astype(float), "of the examples"
        ),
    }


def estimate_error(error: Float[np.ndarray, " examples"]) -> dict[str, Metric]:
    """The standard error of a mean of estimates that each have one; of those without it says how many there are.

    Where one code holds all weight, leaving it out leaves nothing, and its error is unknown; where that is so for every
    example there is none to state.

    >>> estimate_error(np.array([3.0, 4.0, np.inf]))
    {'nll_estimate_error': Metric(value=2.5, unit='nats, of the codes drawn; unknown for 1 of 3 examples, ...
    >>> estimate_error(np.array([np.inf]))
    {}
    """
    known = error[np.isfinite(error)]
    if not len(known):
        return {}
    lost = len(error) - len(known)
    unknown = (
        f"; unknown for {lost:,} of {len(error):,} examples, where one code holds all weight" if lost else ""
    )
    value = float(np.sqrt(np.square(known).sum()) / len(known))
    return {"nll_estimate_error": Metric(value, f"nats, of the codes drawn{unknown}")}


def _weights(key: Key, count: int, model: HasLatents, batch: Batch) -> Array:
    return model.log_weights(batch, key, count)


def collapsed(found: Mapping[str, Metric]) -> str:
    """That the code is not used, why that may be and what helps, in words; empty where it is used.

    >>> collapsed({"active_units": Metric(3.0, "of 16"), "rate": Metric(5.0)})
    ''
    >>> collapsed({"active_units": Metric(6.0), "rate": Metric(0.03), "decoder_sensitivity": Metric(0.0)})[:9]
    'collapsed'
    >>> collapsed({"active_units": Metric(0.0), "rate": Metric(0.0), "decoder_sensitivity": Metric(0.0)})[:62]
    'collapsed: no entry of the code is in use (rate 0 nats), becau'
    """
    # Centres of lower levels vary with codes above them that say nothing: the rate has the last word.
    if "active_units" not in found or (found["active_units"].value and found["rate"].value >= IDLE):
        return ""
    rate = f"collapsed: no entry of the code is in use (rate {short_number(found['rate'].value)} nats)"
    if "context_nats" in found:
        nats = short_number(found["context_nats"].value)
        return (
            f"{rate}, likely because the decoder does without it: entries before an entry tell it {nats} nats "
            "(decoder=autoregressive). What helps: free_bits=0.25, context_dropout=0.5, chunk=8, encoder_steps=5, "
            "coarse=2 for images, decoder=factorised"
        )
    deaf = found["decoder_sensitivity"].value < 0.01
    cause = (
        "because the decoder does without it"
        if deaf
        else "though the decoder listens to it: the encoder says the same of every example"
    )
    return (
        f"{rate}, {cause}. Likely the code costs more than it saves early in training. What helps: warmup=0.5, "
        "free_bits=0.25, a smaller beta, more steps"
    )


def idle_levels(found: Mapping[str, Metric]) -> str:
    """Which levels of a code say nothing, why that may be and what helps, in words; empty where all of them speak.

    >>> idle_levels({"rate_z1": Metric(9.0), "rate_z2": Metric(3.0)})
    ''
    >>> idle_levels({"rate_z1": Metric(9.0), "rate_z2": Metric(0.02)})[:62]
    'level z2 of the code says nothing of the examples (0.02 nats),'
    """
    rates = {name: found[f"rate_{name}"].value for name in _levels(found)}
    idle = [name for name, rate in rates.items() if rate < IDLE]
    if not idle or len(idle) == len(rates):  # a code that says nothing at all is called collapsed
        return ""
    which = (
        f"level {idle[0]} of the code says" if len(idle) == 1 else f"levels {', '.join(idle)} of the code say"
    )
    costs = ", ".join(short_number(rates[name]) for name in idle)
    return (
        f"{which} nothing of the examples ({costs} nats), because the levels beside it do without. What helps: "
        "free_bits=0.25, warmup=0.5, or fewer levels"
    )


def _levels(found: Mapping[str, Metric]) -> list[str]:
    return [match[1] for name in found if (match := re.fullmatch(r"rate_(z\d+)", name))]


def heavy_tailed(found: Mapping[str, Metric]) -> str:
    """That importance weights are dominated by few codes, in words; empty where they are not."""
    if "heavy_tailed" not in found or found["heavy_tailed"].value < 0.05:
        return ""
    share = found["heavy_tailed"].value
    return (
        f"the importance weights of {share:.0%} of the examples have a heavy tail (Pareto k above {_HEAVY:g}): few "
        f"codes decide, and nll_estimate is likely too high. What helps: a larger k{_better(found)}"
    )


def _better(found: Mapping[str, Metric]) -> str:
    """A richer posterior, where it may be a setting: that of codes without levels."""
    levels = any(name.startswith("rate_") for name in found)
    return "" if levels else ", and where the posterior is a setting, posterior=full or flow"


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    found = rate_and_distortion(evaluation) | use(evaluation) | estimate(evaluation)
    bound = found["rate"].value + found["distortion"].value
    found["bound_gap"] = Metric(bound - found["nll_estimate"].value, "nats", kind="estimate")
    return found


score = Score(
    "What the code costs and says, and the likelihood by importance weights.",
    lambda evaluation: isinstance(evaluation.model, HasLatents),
    _measure,
    order=25,
    costly=lambda evaluation: True,
)

__all__ = [
    "CODES",
    "collapsed",
    "estimate",
    "heavy_tailed",
    "idle_levels",
    "level_rates",
    "rate_and_distortion",
    "score",
    "use",
]
