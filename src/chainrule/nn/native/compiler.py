"""Compilation of LLVM text to a function that XLA calls, through its foreign function interface and on its threads."""

import ctypes
from typing import Any

import jax

from chainrule.core.machine_code import build_here

_engines: dict[str, Any] = {}
"""The compiled programs, which must live as long as the process."""


def register(name: str, text: str) -> str:
    """Compile a program for this processor and tell XLA its name."""
    engine = build_here(text)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    target = capsule(engine.get_function_address("handler"), b"xla._CUSTOM_CALL_TARGET", None)
    jax.ffi.register_ffi_target(name, target, platform="cpu")
    _engines[name] = engine
    return name


__all__ = ["register"]
