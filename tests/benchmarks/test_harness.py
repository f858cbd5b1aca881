"""What the benchmarks' own arithmetic says about made-up times; nothing here is timed."""

import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import harness
from benchmarks.harness import BenchmarkError, Case, Growth, Local, Options, Prepared, Report, Summary, Times
from benchmarks.output import human, record, table
from benchmarks.peer import Peer
from benchmarks.quiet import Watch
from benchmarks.suite import agents_search


def times(name: str, *seconds: float) -> Times:
    return Times(name, 0.0, seconds)


def contestant(name: str, result: list[float], turns: list[float]) -> Local:
    left = iter(turns)
    return Local(name, lambda: Prepared(result, 1.5, {name: "1.0"}), lambda: next(left))


class TestStatistics:
    def test_a_summary_is_median_and_quartiles(self):
        assert Summary.of([5.0, 1.0, 2.0, 4.0, 3.0]) == Summary(median=3.0, low=2.0, high=4.0)

    def test_ratios_are_taken_within_a_round_so_that_drift_cancels(self):
        found = harness.ratio(times("ours", 1, 10, 100, 1, 10), times("peer", 2, 20, 200, 2, 20))
        assert found == Summary(0.5, 0.5, 0.5)

    @pytest.mark.parametrize(
        ("found", "said"),
        [
            (Summary(0.8, 0.78, 0.82), "faster"),
            (Summary(1.2, 1.15, 1.25), "slower"),
            (Summary(0.97, 0.95, 1.0), "tie"),
            (Summary(1.0, 1.0, 1.0), "tie"),
        ],
    )
    def test_a_difference_smaller_than_the_spread_is_a_tie(self, found: Summary, said: str):
        assert harness.verdict(found) == said

    def test_the_best_peer_has_the_smallest_median(self):
        case = Case("c", (times("ours", 9, 9), times("a", 2, 4), times("b", 1, 2)), 0)
        assert case.best_peer is not None
        assert case.best_peer.name == "b"

    def test_the_exponent_of_a_power_law_is_found(self):
        sizes = [64, 128, 512, 2048]
        assert harness.exponent(sizes, [3e-9 * n**1.5 for n in sizes]) == pytest.approx(1.5)


class TestMeasuring:
    def test_everybody_takes_a_turn_in_every_round(self):
        people = [contestant("ours", [1.0], [1, 2, 3]), contestant("peer", [1.0], [10, 20, 30])]
        watch = Watch(patience=0, repeats=0)
        case, versions = harness.measure("c", people, rounds=3, tolerance=1e-3, watch=watch)
        assert [t.seconds for t in case.times] == [(1, 2, 3), (10, 20, 30)]
        assert case.ours.compile_seconds == 1.5
        assert versions == {"ours": "1.0", "peer": "1.0"}

    @pytest.mark.parametrize(
        ("others", "found"),
        [
            ([0, 0], (1, True)),  # seconds that others have used before and after each turn
            ([0, 9, 9, 9], (2, True)),
            ([0, 9, 9, 18, 18, 27], (3, False)),
        ],
    )
    def test_a_turn_that_others_disturb_is_repeated_and_counted(
        self, others: list[float], found: tuple[float, bool], monkeypatch: pytest.MonkeyPatch
    ):
        used = iter(others)
        monkeypatch.setattr(Watch, "_foreign", lambda self: next(used))
        assert Watch(patience=0, repeats=2).take(iter([1.0, 2.0, 3.0]).__next__) == found

    @pytest.mark.parametrize("result", [[1.0, 2.01], [1.0], [1.0, float("nan")]])
    def test_contestants_that_do_other_work_are_refused(self, result: list[float]):
        people = [contestant("ours", [1.0, 2.0], []), contestant("peer", result, [])]
        with pytest.raises(BenchmarkError, match="c: ours"):
            harness.measure("c", people, rounds=5, tolerance=1e-3, watch=Watch(patience=0))

    def test_a_peer_that_is_not_installed_says_how_to_get_it(self, tmp_path: Path):
        with pytest.raises(BenchmarkError, match="make peers"):
            Peer("torch", "torch_mlp", {}, python=tmp_path / "python")

    def test_a_worker_that_dies_is_reported_with_its_last_words(self):
        peer = Peer("nobody", "no_such_worker", {}, python=Path(sys.executable))
        try:
            with pytest.raises(BenchmarkError, match="no_such_worker"):
                peer.prepare()
        finally:
            peer.close()


class TestOutput:
    def test_the_record_names_neither_paths_nor_hosts_and_the_table_all_contestants(self):
        case = Case("case", (times("ours", 0.5, 0.5), times("peer", 1.0, 1.0)), 0)
        growth = Growth("seconds", "width", (1, 2, 4, 8), (1, 4, 16, 64), (1, 4, 16, 64))
        report = harness.Report((case,), (growth,))
        written = record("name", report, rounds=2, threads=2)
        assert set(written["machine"]) == {"processor", "instructions", "cores", "memory_gib"}
        assert written["cases"][0]["contestants"][1]["ours_over_this"]["median"] == 0.5
        assert written["growth"][0]["exponent"] == 2
        assert list(table("name", report).columns[1].cells) == ["ours", "peer"]

    def test_durations_are_written_with_a_fitting_unit(self):
        assert [human(s) for s in (2.0, 0.25, 1.35e-3, 3.1e-5, 5e-9)] == [
            "2 s",
            "250 ms",
            "1.35 ms",
            "31 µs",
            "5 ns",
        ]


def test_a_search_to_compare_with_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents_search, "find_spec", lambda name: None)
    with pytest.raises(BenchmarkError, match=r"mctx is not installed: pip install -r tests/oracles.txt"):
        agents_search.run(Options(rounds=5, peers=None, watch=Watch(0), smoke=True))


def test_toy_sizes_are_written_only_where_one_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = Case("c", (times("chainrule", 1, 1, 1, 1, 1),), 0)
    monkeypatch.setattr(agents_search, "run", lambda options: Report((case,)))
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(command.os, "sched_setaffinity", lambda *_: None)
    for words, written in ((["--smoke"], False), ([], True)):
        monkeypatch.setattr(sys, "argv", ["benchmarks", "agents-search", *words])
        assert command.main() == 0
        assert (tmp_path / "agents-search.json").exists() == written
