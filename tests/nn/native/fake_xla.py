"""A stand-in for XLA that calls handlers of native programs: the structures of its interface, as a header in ctypes.

Everything XLA could do differently can be done here: other versions, smaller structures, threads that refuse, start
late or work at once.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_word, _pointer = ctypes.c_size_t, ctypes.c_void_p
_FUNCTIONS = 18
_CREATE, _DESTROY, _SCHEDULE = 0, 2, 11


class Version(ctypes.Structure):
    _fields_ = [
        ("struct_size", _word),
        ("extension", _pointer),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    ]


class Api(ctypes.Structure):
    _fields_ = [
        ("struct_size", _word),
        ("extension", _pointer),
        ("version", Version),
        ("internal", _pointer),
        ("functions", _pointer * _FUNCTIONS),
    ]


class List(ctypes.Structure):
    _fields_ = [
        ("struct_size", _word),
        ("extension", _pointer),
        ("size", ctypes.c_int64),
        ("types", _pointer),
        ("items", _pointer),
    ]


class Frame(ctypes.Structure):
    _fields_ = [
        ("struct_size", _word),
        ("extension", _pointer),
        ("api", _pointer),
        ("context", _pointer),
        ("stage", ctypes.c_int),
        ("args", List),
        ("rets", List),
        ("attrs", List),
        ("more", _pointer * 2),
    ]


class Buffer(ctypes.Structure):
    _fields_ = [
        ("struct_size", _word),
        ("extension", _pointer),
        ("dtype", ctypes.c_int),
        ("data", _pointer),
        ("rank", ctypes.c_int64),
        ("dims", _pointer),
    ]


class Metadata(ctypes.Structure):
    _fields_ = [
        ("struct_size", _word),
        ("version", Version),
        ("traits", ctypes.c_uint32),
        ("state_type", ctypes.c_int64),
    ]


class Extension(ctypes.Structure):
    _fields_ = [("struct_size", _word), ("type", ctypes.c_int), ("next", _pointer), ("metadata", _pointer)]


class ErrorRequest(ctypes.Structure):
    _fields_ = [
        ("struct_size", _word),
        ("extension", _pointer),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int),
    ]


class TaskRequest(ctypes.Structure):
    _fields_ = [
        ("struct_size", _word),
        ("extension", _pointer),
        ("context", _pointer),
        ("task", Task),
        ("data", _pointer),
    ]


class DestroyRequest(ctypes.Structure):
    _fields_ = [("struct_size", _word), ("extension", _pointer), ("error", _pointer)]


@dataclass
class FakeXla:
    """What it gives and what it was asked for."""

    major: int = 0
    frame_size: int = ctypes.sizeof(Frame)
    api_size: int = ctypes.sizeof(Api)
    list_size: int = ctypes.sizeof(List)
    buffer_size: int = ctypes.sizeof(Buffer)
    extra_arguments: int = 0
    schedule: Callable[[Any, int], bool] = lambda task, data: False
    """Whether a task is accepted; none is by default."""
    destroyed: list[int] = field(default_factory=list)

    def call(
        self, address: int, arguments: Sequence[np.ndarray], results: Sequence[np.ndarray]
    ) -> str | None:
        """Fill the results; the code and message of an error, if there was one."""
        errors: dict[int, str] = {}

        def create(request: int) -> int:
            given = ErrorRequest.from_address(request)
            assert given.struct_size == ErrorRequest.code.offset + 4
            errors[len(errors) + 1] = f"{given.code}: {given.message.decode()}"
            return len(errors)

        def destroy(request: int) -> None:
            given = DestroyRequest.from_address(request)
            assert given.struct_size == ctypes.sizeof(DestroyRequest)
            self.destroyed.append(given.error)

        def ask(request: int) -> int | None:
            given = TaskRequest.from_address(request)
            assert given.struct_size == ctypes.sizeof(TaskRequest)
            assert given.context == 77
            return None if self.schedule(given.task, given.data) else 4711

        functions = {_CREATE: Call(create), _DESTROY: Task(destroy), _SCHEDULE: Call(ask)}
        api = Api(self.api_size, None, Version(ctypes.sizeof(Version), None, self.major, 3))
        for number, function in functions.items():
            api.functions[number] = ctypes.cast(function, _pointer).value
        lists, kept = [], []
        for arrays in (arguments, results):
            buffers = [
                Buffer(self.buffer_size, None, 11, array.ctypes.data, array.ndim, None) for array in arrays
            ]
            pointers = (_pointer * max(1, len(buffers)))(*map(ctypes.addressof, buffers))
            kept += [buffers, pointers]
            lists.append(List(self.list_size, None, len(buffers), None, ctypes.addressof(pointers)))
        lists[0].size += self.extra_arguments
        frame = Frame(self.frame_size, None, ctypes.addressof(api), 77, 3, *lists)
        error = Call(address)(ctypes.addressof(frame))
        return errors[error] if error else None


def stated_version(address: int) -> tuple[int, int]:
    """What a handler says about itself."""
    metadata = Metadata(Metadata.traits.offset + 4, Version(0, None, -1, -1), 99, 99)
    extension = Extension(ctypes.sizeof(Extension), 1, None, ctypes.addressof(metadata))
    api = Api(ctypes.sizeof(Api), None, Version(ctypes.sizeof(Version), None, 5, 99))
    frame = Frame(ctypes.sizeof(Frame), ctypes.addressof(extension), ctypes.addressof(api))
    assert Call(address)(ctypes.addressof(frame)) is None
    assert metadata.traits == metadata.state_type == 0
    return metadata.version.major, metadata.version.minor
