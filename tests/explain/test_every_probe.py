"""Every probe on every registered model it applies to: an outcome whose numbers are finite.

A new model or a new probe is picked up as it is. `make test-all` tries all pairs; `make test` those that once failed,
and each probe by tests of its own.
"""

import math
from collections.abc import Iterator
from typing import Any

import pytest

from chainrule import data, models
from chainrule.explain import probes
from chainrule.train import Run, fit

TRAINING: dict[str, Any] = {"steps": 3, "log_every": 3, "eval_every": 3, "save_every": 3}
VARIANTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "gpt of short passages": ("gpt", {}, {"window": 12}),
    "gpt in a compiled loop": ("gpt", {"scan": True}, {}),
    "gpt computed again": ("gpt", {"recompute": True}, {}),
    "char-rnn without segments": ("char-rnn", {"segment": 0}, {}),
    "diffusion of images": (
        "diffusion",
        {"denoiser": "unet", "width": 4, "depth": 1},
        {"name_or_path": "digits"},
    ),
    "bert of images": (
        "bert",
        {"width": 16, "heads": 2, "layers": 1, "patch": 2},
        {"name_or_path": "digits"},
    ),
}
"""Settings and data under which a probe once failed, or that open probes the toy does not."""
RUNS: dict[str, Run] = {}


def numbers(found: Any) -> Iterator[float]:
    """Every number of nested plain values."""
    if isinstance(found, dict):
        for value in found.values():
            yield from numbers(value)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from numbers(value)
    elif isinstance(found, int | float):
        yield float(found)


@pytest.fixture
def run(subject: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A few steps of training, shared by all probes of a subject."""
    if subject not in RUNS:
        name, settings, options = VARIANTS.get(subject, (subject, {}, {}))
        entry = models.entry(name)
        examples = data.load(**{"name_or_path": entry.toy_data, **options})
        model = models.build(name, examples, **{**entry.toy, **settings})
        batch = min(8, len(examples.train))
        folder = tmp_path_factory.mktemp("runs") / subject.replace(" ", "-")
        RUNS[subject] = fit(model, examples, run=folder, **TRAINING, batch=batch)
    return RUNS[subject]


def failures(run: Run, wanted: list[str]) -> dict[str, str]:
    """The probes among those that apply to a run whose outcome says nothing or has numbers that are not finite."""
    found = {}
    for name in wanted:
        if not probes.get(name).applies(run.model, run.schema):
            continue
        outcome = probes.examine(name, run, **probes.get(name).toy)
        if not outcome.findings or not all(map(math.isfinite, numbers(outcome.numbers))):
            found[name] = f"{outcome.findings}, {outcome.numbers}"
    return found


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("made", "layers"),
        pytest.param("pixel-cnn", "layers", marks=pytest.mark.slow),
        ("char-rnn without segments", "layers"),
        ("gpt of short passages", "logit-lens"),
    ],
)
def test_a_probe_works_where_it_once_failed(run: Run, name: str) -> None:
    assert name in probes.applicable(run)
    assert failures(run, [name]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("subject", [*models.names(), *VARIANTS])
def test_every_probe_that_applies_works(run: Run) -> None:
    assert failures(run, list(probes.names())) == {}


def test_numbers_that_are_not_finite_are_found() -> None:
    assert [math.isfinite(n) for n in numbers({"a": [1, {"b": math.nan}], "c": "text"})] == [True, False]
