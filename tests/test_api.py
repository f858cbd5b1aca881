"""One door to the report of a run, however its training ends."""

from pathlib import Path

import pytest

import chainrule as cr
from chainrule.api import with_report
from chainrule.core.errors import DiskError, DivergedError
from chainrule.train import Run, events
from tests.trust.toys import SETTINGS, Spoilt, points


def started(path: Path) -> events.Started:
    return events.Started("toy", str(path), "", "", "cpu", 0, 0, 12)


@pytest.mark.parametrize("status", ["done", "interrupted"])
def test_a_run_that_ends_has_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    written: list[Run] = []
    monkeypatch.setattr(Run, "status", {"status": status})
    run = Run(tmp_path)
    assert with_report(lambda listener: run, write=written.append) is run
    assert written == [run]


@pytest.mark.parametrize(
    ("error", "reports"), [(DivergedError("NaN"), 1), (KeyboardInterrupt(), 0), (DiskError("full"), 0)]
)
def test_an_error_comes_through_and_only_a_run_that_diverged_has_a_report(
    tmp_path: Path, error: BaseException, reports: int
) -> None:
    written: list[Path] = []
    heard: list[events.Event] = []

    def training(listener: events.Listener) -> Run:
        listener(started(tmp_path))
        raise error

    with pytest.raises(type(error)):
        with_report(
            training,
            heard.append,
            opened=lambda path: Run(Path(path)),
            write=lambda run: written.append(run.path),
        )
    assert written == [tmp_path] * reports
    assert heard == [started(tmp_path)]


def test_what_diverges_before_there_is_a_run_has_no_report() -> None:
    def training(listener: events.Listener) -> Run:
        raise DivergedError("NaN")

    with pytest.raises(DivergedError):
        with_report(training, write=lambda run: pytest.fail("there is no run"))


def test_fit_leaves_the_report_of_a_run_that_diverged(tmp_path: Path) -> None:
    with pytest.raises(DivergedError):
        cr.fit(Spoilt("loss"), points(), run=tmp_path / "toy", **SETTINGS)
    assert "diverged" in (tmp_path / "toy" / "report.html").read_text()
