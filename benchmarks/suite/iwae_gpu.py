"""Importance-weighted auto-encoders on MNIST: test nats by 5,000 codes, beside the published figures, and step time.

One layer of 50 latent variables, two hidden layers of 200 tanh units on either side, zeros and ones drawn anew from
grey in every step, 3,500, 2,900 and 1,800 epochs of batches of 500, or as many as `IWAE_EPOCHS` says (the paper takes
3,280 of batches of 20). To hold against, for k = 1, 5 and 50: 86.76, 85.54 and 84.78 nats (Burda, Grosse and
Salakhutdinov, 2016), and 87.75, 85.50 and 84.65 of an independent repetition. The official test images stay the test
set. `--case k=5` runs one of them.
"""

import os

import jax

from benchmarks.harness import Case, Options, Report
from benchmarks.mnist import judged, timed
from chainrule import models
from chainrule.data import load
from chainrule.train import Run

EPOCHS = {1: 3500, 5: 2900, 50: 1800}
"""By number of codes: about two to three minutes on an H200."""
CODES = 5000
PUBLISHED = {1: (86.76, 87.75), 5: (85.54, 85.50), 50: (84.78, 84.65)}
CHOICES = tuple(f"k={k}" for k in PUBLISHED)


def run(options: Options) -> Report:
    """Time a step, train and judge for every number of codes."""
    options.chosen([])  # nobody to compare with: the published figures are
    recipe = models.entry("iwae").recipes["published"]
    data = load("mnist", split=(0.98, 0.01, 0.01), **recipe.data)
    cases: list[Case] = []
    notes: list[str] = []
    versions: dict[str, str] = {"device": jax.devices()[0].device_kind}
    for k, (paper, repeated) in PUBLISHED.items():
        if options.case not in (None, f"k={k}"):
            continue
        epochs = int(os.environ.get("IWAE_EPOCHS", EPOCHS[k]))
        settings = {**recipe.train, "epochs": epochs}
        model = models.build("iwae", data, **{**recipe.model, "k": k})
        case, found = timed(f"iwae 784-200-200-50, k = {k}", model, data, options, **settings)
        cases.append(case)
        versions.update(found)
        said = f"k = {k}, {epochs:,} epochs: {judged(model, data, _nats, settings)}"
        notes.append(f"{said} (published {paper}, repeated {repeated})")
        print(notes[-1], flush=True)
    return Report(tuple(cases), notes=tuple(notes), versions=versions)


def _nats(trained: Run) -> str:
    scores = trained.score("test", k=CODES, n=10_000)
    bound, estimate = scores["rate"].value + scores["distortion"].value, scores["nll_estimate"]
    return f"test {estimate} by {CODES:,} codes, bound {bound:.2f}"
