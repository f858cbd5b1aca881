"""Compilation of LLVM text to a function that XLA calls.

Programs are compiled by llvmlite (which Numba brings along) in a few hundredths of a second and called by XLA through
its foreign function interface, on XLA's own threads.
"""

import ctypes
from typing import Any

import jax

_engines: dict[str, Any] = {}
"""The compiled programs, which must live as long as the process."""


def register(name: str, text: str) -> str:
    """Compile a program for this processor and tell XLA its name."""
    import llvmlite.binding as llvm

    engine = build(text, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    target = capsule(engine.get_function_address("handler"), b"xla._CUSTOM_CALL_TARGET", None)
    jax.ffi.register_ffi_target(name, target, platform="cpu")
    _engines[name] = engine
    return name


def build(text: str, processor: str, features: str) -> Any:
    """The program for a processor, in memory for as long as what is returned lives."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(cpu=processor, features=features, opt=3)
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return engine


__all__ = ["build", "register"]
