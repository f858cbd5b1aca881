"""How much of a codebook is in use."""

import numpy as np

from chainrule.models.protocol import HasCodebook
from chainrule.train.evaluation import over
from chainrule.train.scoring import Evaluation, Metric, Score


def use(indices: np.ndarray, codes: int) -> dict[str, Metric]:
    """Perplexity of the codes and how many of them are never met.

    >>> found = use(np.array([[0, 1], [1, 0]]), 3)
    >>> round(found["perplexity"].value, 6), found["dead_codes"].value
    (2.0, 1.0)
    """
    met = np.bincount(indices.ravel(), minlength=codes)
    shares = met[met > 0] / met.sum()
    return {
        "perplexity": Metric(float(np.exp(-(shares * np.log(shares)).sum())), f"of {codes} codes"),
        "dead_codes": Metric(float((met == 0).sum()), f"of {codes}, not met in these examples"),
    }


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    model = evaluation.model
    assert isinstance(model, HasCodebook), "ask what applies first"
    indices = over(
        "codes",
        lambda model, batch, key: model.encode_indices(batch.x),
        *(model, evaluation.split, evaluation.key),
    )
    return use(np.asarray(indices), len(model.codebook))


score = Score(
    "How much of the codebook is in use.",
    lambda evaluation: isinstance(evaluation.model, HasCodebook),
    _measure,
    order=26,
)

__all__ = ["score", "use"]
