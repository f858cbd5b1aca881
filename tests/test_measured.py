from tests.measured import LONGEST, long_tests, renewed


def test_what_was_measured_anew_replaces_what_was_known_and_the_rest_stays() -> None:
    known = frozenset({"a.py::once_long", "a.py::not_run"})
    seconds = {"a.py::once_long": LONGEST / 2, "a.py::long": 2 * LONGEST, "a.py::short": 0.0}
    assert renewed(known, seconds) == ["a.py::long", "a.py::not_run"]


def test_long_tests_are_marked_slow_and_others_are_not(request) -> None:
    marked = {item.nodeid for item in request.session.items if item.get_closest_marker("slow")}
    assert request.node.nodeid not in marked
    assert long_tests() & {item.nodeid for item in request.session.items} <= marked
