"""Which tests `make test` leaves to `make test-all` because of what they were measured to take.

`python -m pytest -p tests.measured --processor-seconds=FOLDER ...` writes what each test took, a file for each process:
processor time, of child processes too, so that a busy machine changes little. What a shared fixture takes counts for
the test that comes first. `python -m tests.measured FOLDER` writes `tests/long_tests.txt`, the list of those above
`LONGEST` seconds; tests that were not run keep their place.
"""

import json
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("long_tests.txt")
LONGEST = 1.5
"""Seconds of one core that a test of `make test` may take."""
_HEAD = (
    f"# Tests above {LONGEST} s of processor time, left to `make test-all`; written by `tests/measured.py`.\n"
)


def long_tests() -> frozenset[str]:
    """The ids in the list."""
    return frozenset(line for line in LIST.read_text().splitlines() if line and not line.startswith("#"))


def renewed(known: frozenset[str], seconds: Mapping[str, float]) -> list[str]:
    """The list after a measurement: those that took long, and of those that were not run what it held before."""
    long = {test for test, took in seconds.items() if took > LONGEST}
    return sorted(long | (known - set(seconds)))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processor-seconds", type=Path, metavar="FOLDER", help="write what each test takes")


def _spent() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _spent()
    found = yield
    folder: Path | None = item.config.getoption("--processor-seconds")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps([item.nodeid, round(_spent() - before, 3)]) + "\n")
    return found


def main(folder: Path) -> None:
    """Write the list anew from what was measured."""
    rows = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    found = renewed(long_tests(), dict(rows))
    LIST.write_text(_HEAD + "".join(f"{test}\n" for test in found))
    print(
        f"{len(rows)} tests took {sum(took for _, took in rows) / 60:.0f} min; {len(found)} are in {LIST.name}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
