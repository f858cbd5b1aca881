"""Every probe on every registered model it applies to: an outcome whose numbers are finite.

A new model or a new probe is picked up as it is. `make test-all` tries all pairs; `make test` those that once failed,
and each probe by tests of its own. `python -m tests.explain.test_every_probe` prints the table of all pairs.
"""

import math
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chainrule import data, models
from chainrule.explain import probes
from chainrule.models.protocol import HasOwnTraining
from chainrule.train import Run, fit

TRAINING: dict[str, Any] = {"steps": 3, "log_every": 3, "eval_every": 3, "save_every": 3}
VARIANTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "gpt of short passages": ("gpt", {}, {"window": 12}),
    "gpt in a compiled loop": ("gpt", {"scan": True}, {}),
    "gpt computed again": ("gpt", {"recompute": True}, {}),
    "gpt of the second kind": ("gpt", {"preset": "gpt2", "heads": 4, "key_heads": 2}, {}),
    "hmm of text": ("hmm", {"states": 4}, {"name_or_path": "shakespeare"}),
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


def trained(subject: str, folder: Path) -> Run:
    """A few steps of training, shared by all probes of a subject."""
    if subject not in RUNS:
        name, settings, options = VARIANTS.get(subject, (subject, {}, {}))
        entry = models.entry(name)
        examples = data.load(**{"name_or_path": entry.toy_data, **options})
        model = models.build(name, examples, **{**entry.toy, **settings})
        batch = {} if isinstance(model, HasOwnTraining) else {"batch": min(8, len(examples.train))}
        RUNS[subject] = fit(model, examples, run=folder / subject.replace(" ", "-"), **TRAINING, **batch)
    return RUNS[subject]


@pytest.fixture
def run(subject: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(subject, tmp_path_factory.mktemp("runs"))


def verdict(run: Run, name: str) -> str:
    """What becomes of a probe: "ok", "" where it does not apply, or what is wrong with its outcome."""
    if not probes.get(name).applies(run.model, run.schema):
        return ""
    outcome = probes.examine(name, run, **probes.get(name).toy)
    if not outcome.findings or not all(map(math.isfinite, numbers(outcome.numbers))):
        return f"{outcome.findings}, {outcome.numbers}"
    return "ok"


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("made", "layers"),
        pytest.param("pixel-cnn", "layers", marks=pytest.mark.slow),
        ("char-rnn without segments", "layers"),
        ("gpt of short passages", "logit-lens"),
        pytest.param("gpt of short passages", "patching", marks=pytest.mark.slow),
    ],
)
def test_a_probe_works_where_it_once_failed(run: Run, name: str) -> None:
    assert verdict(run, name) == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("subject", [*models.names(), *VARIANTS])
def test_every_probe_that_applies_works(run: Run) -> None:
    wrong = {name: found for name in probes.names() if (found := verdict(run, name)) not in ("", "ok")}
    assert wrong == {}


def test_numbers_that_are_not_finite_are_found() -> None:
    assert [math.isfinite(n) for n in numbers({"a": [1, {"b": math.nan}], "c": "text"})] == [True, False]


def matrix(subjects: Iterable[str], folder: Path) -> str:
    """Probes against models as a table: "ok", a dot where a probe does not apply, or FAILED."""
    names = list(probes.names())
    width = max(map(len, names))
    lines: dict[str, list[str]] = {name: [] for name in names}
    heads: list[str] = []
    for subject in subjects:
        heads.append(subject)
        run = trained(subject, folder)
        for name in names:
            try:
                found = verdict(run, name)
            except Exception as error:  # the table says which, and why below
                found = f"{type(error).__name__}: {error}"
            lines[name].append({"": ".", "ok": "ok"}.get(found, "FAILED"))
            if lines[name][-1] == "FAILED":
                print(f"{name} of {subject}: {found}", file=sys.stderr)
        print(f"{subject}: {sum(line[-1] == 'ok' for line in lines.values())} probes", file=sys.stderr)
    key = [f"{number:2d} {subject}" for number, subject in enumerate(heads, start=1)]
    top = " " * width + "".join(f" {number:>2d}" for number in range(1, len(heads) + 1))
    rows = [name.ljust(width) + "".join(f" {mark:>2s}" for mark in line) for name, line in lines.items()]
    return "\n".join([*key, "", top, *rows])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        print(matrix(sys.argv[1:] or [*models.names(), *VARIANTS], Path(scratch)))
