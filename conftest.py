"""What holds for every test, doctest and process started by a test.

- Shapes: annotations are enforced at run time (jaxtyping with `tests/typecheck.py`, switched on in `pyproject.toml`)
  and NumPy-style rank promotion is an error.
- Compiling takes most of the time here, so programs are compiled quickly instead of well (a small U-Net in a
  quarter of the time; results differ in the last digits), and fewer of them (`tests/quickly.py`). With
  `XLA_FLAGS= make test` all is compiled as users do, and so is the test that promises bits
  (`tests/trust/test_exact_resume.py`).
- No network: see `tests/offline`.
- No traces: run folders and caches of the user are never touched. What is expensive to rebuild and safe to share
  lives in `.pytest_cache`, which survives from one test run of a checkout to the next.
"""

import contextlib
import ctypes
import gc
import importlib.metadata
import os
import runpy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

import tests.measured
import tests.typecheck  # the import hook knows it by name (pyproject.toml) and does not load it itself

_HERE = Path(__file__).parent
_OFFLINE = _HERE / "tests" / "offline"
_COMPILED_QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_parallel_codegen_split_count=1"  # two processes share two cores: pieces of a program cost, not save
)
_KNOWN_JAX = importlib.metadata.version("jaxlib").startswith("0.10.")
if _KNOWN_JAX:
    # Another way from operations to instructions, with fewer stages; later versions know no other way and no such flag.
    _COMPILED_QUICKLY += " --xla_cpu_use_fusion_emitters=false"
_MOST_MEMORY = 4 * 2**30
"""Bytes a process of the suite may keep from one test to the next.

About 35,000 mappings of compiled programs; Linux kills a process that asks for more than 65,530 of them.
"""
_MEMORY_LIMIT = pytest.StashKey[int]()
"""Bytes at which compiled programs are let go of next."""
_LEFT_OUT = pytest.StashKey[int]()
"""Slow tests that `-m 'not slow'` leaves out."""

gc.disable()  # importing and rewriting a thousand modules leaves no garbage worth ten seconds; see collection below

# JAX, Matplotlib and child processes read these; conftest.py files further down may import them, so it happens here.
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(_HERE / ".pytest_cache" / "jax")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ.setdefault("XLA_FLAGS", _COMPILED_QUICKLY)
# LAPACK: two processes share two cores, and threads of one that wait for each other take a hundred times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "agg"
os.environ["MPLCONFIGDIR"] = str(_HERE / ".pytest_cache" / "matplotlib")  # the list of fonts
os.environ["PYTHONPATH"] = os.pathsep.join(
    dict.fromkeys([str(_OFFLINE), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))])
)
runpy.run_path(str(_OFFLINE / "sitecustomize.py"))

# Compilation makes the first example of a property slow; time is never an assertion here.
hypothesis.settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("ci")


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what was measured to take long, and refuse names that hold an address: they differ between processes."""
    long = tests.measured.long_tests()
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.slow)
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(
                f"{item.nodeid}: give this parameter an id that is the same in every process"
            )


def _quick() -> bool:
    """Whether programs are compiled quickly, by a version of JAX whose inner parts are known."""
    return _KNOWN_JAX and os.environ["XLA_FLAGS"] == _COMPILED_QUICKLY


def pytest_collection_finish() -> None:
    """Look for garbage seldom: tracing makes many short-lived objects, and what was imported stays anyway."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    gc.enable()
    if _quick():
        from tests import quickly

        quickly.share_contexts()
        quickly.move_on_the_host()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the slow tests that `-m 'not slow'` leaves out, where they are collected; `-k` chooses tests by hand."""
    config = items[0].config
    if config.getoption("markexpr") != "not slow" or config.getoption("keyword"):
        return
    count = sum(item.get_closest_marker("slow") is not None for item in items)
    config.stash[_LEFT_OUT] = config.stash.get(_LEFT_OUT, 0) + count
    getattr(config, "workeroutput", {})["slow"] = config.stash[_LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every process that shares the work collects the same tests: the left out ones are counted by any."""
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("slow", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := config.stash.get(_LEFT_OUT, 0):
        terminalreporter.write_line(f"left out: {count} slow tests; `make test-all` runs them too")


@pytest.fixture(scope="session", autouse=True)
def _nothing_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for variable in (
            "CHAINRULE_RUNS",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
        ):
            patch.setenv(variable, str(home / variable.lower()))
        yield


def _resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Let go of compiled programs, which pile up over thousands of tests, before they fill the machine."""
    stash = item.config.stash
    if _resident() > stash.get(_MEMORY_LIMIT, _MOST_MEMORY):
        import jax

        jax.clear_caches()
        gc.collect()
        # What is freed goes back to the system only where GNU's library is asked.
        with contextlib.suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        # What shared fixtures still hold does not go: the next time comes a gigabyte later at the earliest.
        stash[_MEMORY_LIMIT] = max(_MOST_MEMORY, _resident() + 2**30)


@pytest.fixture
def compiled_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles as users do, for tests that compute for longer than compiling well takes."""
    if _quick():
        from tests import quickly

        quickly.compile_well(monkeypatch)


@pytest.fixture(scope="session")
def oracle() -> Callable[[str], ModuleType]:
    """Imports an independent implementation to compare with, or skips the test where it is not installed."""

    def load(name: str) -> ModuleType:
        reason = f"{name} is only a reference to compare with; `.ci/run` installs it"
        module: ModuleType = pytest.importorskip(name, reason=reason)
        return module

    return load
