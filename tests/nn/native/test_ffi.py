"""What handlers of native programs make of what XLA gives them, and how threads share the work."""

import resource
import threading
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.machine_code import build_here
from chainrule.nn.native import compiler, ffi, threads
from chainrule.nn.native.interface import VERSION
from tests.nn.conftest import native_reason
from tests.nn.native.fake_xla import Buffer, FakeXla, Frame, List, Task, stated_version

pytestmark = pytest.mark.skipif(bool(native_reason()), reason=f"native code: {native_reason()}")

ITEMS = 5
NO_MEMORY = "8: chainrule: no memory for a native program"
TOO_SMALL = "3: chainrule: XLA gives smaller structures than this program reads"
OTHER_VERSION = "9: chainrule: XLA's interface is not version 0"
_kept: list[Any] = []


def doubling(room: int = 16, helpers: int = 1, slow: bool = False) -> str:
    """A program that doubles numbers, one item each; the first item may take a while."""
    begin = """
  %p.x = getelementptr float, ptr %x, i64 %item
  %one = load float, ptr %p.x
  %two = fadd float %one, %one
  %p.out = getelementptr float, ptr %out, i64 %item"""
    if slow:
        begin += """
  %p.begun = getelementptr float, ptr %out, i64 5
  %first = icmp eq i64 %item, 0
  br i1 %first, label %dawdle, label %quick
dawdle:
  store float 1.0, ptr %p.begun
  %slept = call i32 @usleep(i32 100000)
  br label %quick
quick:"""
    begin += "\n  store float %two, ptr %p.out"
    parts = [
        "declare i32 @usleep(i32)",
        ffi.handler(ITEMS, helpers, arguments=1, results=1),
        threads.NOTHING_TO_COLLECT,
        threads.work(ITEMS, ("x", "out"), room, begin),
    ]
    return "\n".join(parts)


def built(text: str) -> int:
    engine = build_here(text)
    _kept.append(engine)
    return int(engine.get_function_address("handler"))


@pytest.fixture(scope="module")
def program() -> Iterator[int]:
    yield built(doubling())
    _kept.clear()


def called(address: int, xla: FakeXla) -> tuple[str | None, np.ndarray]:
    x, out = np.arange(1, 1 + ITEMS, dtype=np.float32), np.zeros(ITEMS + 1, np.float32)
    return xla.call(address, [x], [out]), out


DOUBLED = [2.0, 4.0, 6.0, 8.0, 10.0, 0.0]


def test_a_handler_states_the_version_it_was_written_for_and_not_that_of_xla(program: int) -> None:
    assert stated_version(program) == VERSION == (0, 3)


def test_without_help_the_caller_does_everything(program: int) -> None:
    xla = FakeXla()
    error, out = called(program, xla)
    assert error is None
    assert out.tolist() == DOUBLED
    assert xla.destroyed == [4711]  # the refusal was given back


@pytest.mark.parametrize(
    ("xla", "expected"),
    [
        (FakeXla(major=1), OTHER_VERSION),
        (FakeXla(api_size=136), OTHER_VERSION),  # no threads to ask
        (FakeXla(frame_size=Frame.attrs.offset - 1), TOO_SMALL),
        (FakeXla(list_size=List.items.offset), TOO_SMALL),
        (FakeXla(buffer_size=Buffer.data.offset), TOO_SMALL),
        (FakeXla(extra_arguments=1), TOO_SMALL),
    ],
    ids=["major version", "api", "frame", "lists", "buffers", "number of arguments"],
)
def test_what_does_not_hold_what_is_read_is_an_error_and_nothing_is_written(
    program: int, xla: FakeXla, expected: str
) -> None:
    error, out = called(program, xla)
    assert error == expected
    assert not out.any()


def test_a_thread_that_starts_at_once_does_everything(program: int) -> None:
    def at_once(task: Any, data: int) -> bool:
        task(data)
        return True

    error, out = called(program, FakeXla(schedule=at_once))
    assert error is None
    assert out.tolist() == DOUBLED


def test_a_thread_that_starts_after_the_end_finds_nothing_to_do_and_nothing_to_wait_for(program: int) -> None:
    later: list[tuple[Any, int]] = []

    def remember(task: Any, data: int) -> bool:
        later.append((Task(ctypes_address(task)), data))
        return True

    error, out = called(program, FakeXla(schedule=remember))
    assert error is None
    out[:] = -1
    for task, data in later:
        task(data)
    assert out.tolist() == [-1] * (ITEMS + 1)


def ctypes_address(task: Any) -> int:
    """The function itself: what XLA hands over lies in a structure that is gone when the handler has returned."""
    import ctypes

    return ctypes.cast(task, ctypes.c_void_p).value or 0


class Helper:
    """A thread that has taken the slow item when `schedule` returns."""

    def __init__(self, out: np.ndarray) -> None:
        self.out, self.threads = out, []  # type: ignore[var-annotated]

    def __call__(self, task: Any, data: int) -> bool:
        self.threads.append(threading.Thread(target=Task(ctypes_address(task)), args=(data,)))
        self.threads[-1].start()
        while not self.out[ITEMS]:
            time.sleep(0.001)
        return True

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


def test_the_caller_sleeps_while_others_finish_what_they_have_taken() -> None:
    address = built(doubling(slow=True))
    x, out = np.arange(1, 1 + ITEMS, dtype=np.float32), np.zeros(ITEMS + 1, np.float32)
    helper = Helper(out)
    before = 0

    def counted(task: Any, data: int) -> bool:
        nonlocal before
        accepted = helper(task, data)
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        return accepted

    assert FakeXla(schedule=counted).call(address, [x], [out]) is None
    after = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    assert out.tolist() == [*DOUBLED[:-1], 1.0]
    helper.join()
    assert after > before  # it gave its core away


def starved(text: str, fails: int) -> str:
    """The program with a memory that is exhausted at the request of that number."""
    return text.replace(
        "declare ptr @aligned_alloc(i64, i64)",
        f"""
@requests = internal global i64 0
declare i32 @posix_memalign(ptr, i64, i64)
define internal ptr @aligned_alloc(i64 %align, i64 %size) {{
  %number = atomicrmw add ptr @requests, i64 1 seq_cst
  %fails = icmp eq i64 %number, {fails}
  br i1 %fails, label %none, label %some
none:
  ret ptr null
some:
  %p = alloca ptr
  %code = call i32 @posix_memalign(ptr %p, i64 %align, i64 %size)
  %found = load ptr, ptr %p
  ret ptr %found
}}""",
    )


def test_no_memory_for_a_helper_leaves_the_work_to_the_caller() -> None:
    def at_once(task: Any, data: int) -> bool:
        task(data)
        return True

    error, out = called(built(starved(doubling(), 0)), FakeXla(schedule=at_once))
    assert error is None
    assert out.tolist() == DOUBLED


def test_no_memory_for_the_caller_is_an_error_after_what_others_have_taken_is_done() -> None:
    x, out = np.arange(1, 1 + ITEMS, dtype=np.float32), np.zeros(ITEMS + 1, np.float32)
    helper = Helper(out)
    assert FakeXla(schedule=helper).call(built(starved(doubling(slow=True), 1)), [x], [out]) == NO_MEMORY
    assert out.tolist() == [2, 0, 0, 0, 0, 1]
    helper.join()
    assert out.tolist() == [2, 0, 0, 0, 0, 1]  # nobody took more afterwards


def test_no_memory_for_what_is_shared_is_an_error() -> None:
    text = doubling().replace(
        "declare ptr @malloc(i64)", "define internal ptr @malloc(i64 %size) {\n  ret ptr null\n}"
    )
    error, out = called(built(text), FakeXla())
    assert error == NO_MEMORY
    assert not out.any()


def test_xla_tells_that_there_is_no_memory() -> None:
    name = compiler.register("chainrule_test_no_memory", doubling(room=1 << 60, helpers=3))
    result = jax.ShapeDtypeStruct((ITEMS + 1,), jnp.float32)
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"RESOURCE_EXHAUSTED.*no memory for a native program"
    ):
        jax.block_until_ready(jax.jit(jax.ffi.ffi_call(name, result))(jnp.ones(ITEMS)))


def test_xla_shares_slow_items_among_its_threads() -> None:
    name = compiler.register("chainrule_test_slow", doubling(helpers=3, slow=True))
    result = jax.ShapeDtypeStruct((ITEMS + 1,), jnp.float32)
    out = jax.jit(jax.ffi.ffi_call(name, result))(jnp.arange(1.0, 1 + ITEMS))
    assert np.asarray(out)[:ITEMS].tolist() == DOUBLED[:-1]
