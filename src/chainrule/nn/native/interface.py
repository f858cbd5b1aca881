"""XLA's foreign function interface: the version and the memory layout that native programs are written for.

Programs read and fill the structures of `xla/ffi/api/c_api.h` at fixed offsets. The header that ships with jaxlib says
where the fields of the XLA at hand are, so it is read once and compared: with another major version, or a field that
is not where it was, programs would read memory that is not what they take it for, and `refusal` says so.
"""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, final

VERSION = (0, 3)
"""Major and minor number that handlers state."""

POINTER = 8
"""Bytes."""


@final
class StructField(NamedTuple):
    """Where a field of a structure lies, in bytes."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.offset + self.size


Layout = Mapping[str, StructField]


def _words(*names: str | None, first: int = 0) -> dict[str, StructField]:
    """Fields of eight bytes, one after the other; those without a name are not used."""
    return {name: StructField(first + POINTER * number, POINTER) for number, name in enumerate(names) if name}


READ: Mapping[str, Layout] = {
    "XLA_FFI_CallFrame": _words("struct_size", "extension_start", "api", "ctx")
    | _words("args.struct_size", None, "args.size", None, "args.args", first=40)
    | _words("rets.struct_size", None, "rets.size", None, "rets.rets", first=80),
    "XLA_FFI_Buffer": _words("struct_size", None, None, "data"),
    "XLA_FFI_Api": _words("struct_size")
    | {"api_version.major_version": StructField(32, 4)}
    | _words("XLA_FFI_Error_Create", None, "XLA_FFI_Error_Destroy", first=48)
    | _words("XLA_FFI_ThreadPool_Schedule", first=136),
    "XLA_FFI_Metadata_Extension": _words("extension_base.struct_size", None, None, "metadata")
    | {"extension_base.type": StructField(8, 4)},
    "XLA_FFI_Metadata": _words("struct_size", "api_version.struct_size", "api_version.extension_start")
    | {
        "api_version": StructField(8, 24),
        "api_version.major_version": StructField(24, 4),
        "api_version.minor_version": StructField(28, 4),
        "traits": StructField(32, 4),
        "state_type_id": StructField(40, 8),
    },
}
"""Structures that XLA makes: fields that programs use, of structures inside too. There may be others beside them."""

FILLED: Mapping[str, Layout] = {
    "XLA_FFI_Error_Create_Args": _words("struct_size", "extension_start", "message")
    | {"errc": StructField(24, 4)},
    "XLA_FFI_Error_Destroy_Args": _words("struct_size", "extension_start", "error"),
    "XLA_FFI_ThreadPool_Schedule_Args": _words("struct_size", "extension_start", "ctx", "task", "data"),
}
"""Structures that programs make: all fields."""

CONSTANTS: Mapping[str, int] = {
    "XLA_FFI_Extension_Metadata": 1,
    "XLA_FFI_Error_Code_INVALID_ARGUMENT": 3,
    "XLA_FFI_Error_Code_RESOURCE_EXHAUSTED": 8,
    "XLA_FFI_Error_Code_FAILED_PRECONDITION": 9,
}


def field(struct: str, name: str) -> StructField:
    """A field of a structure, both without the prefix that all structures share.

    >>> field("CallFrame", "args.size")
    StructField(offset=56, size=8)
    """
    return {**READ, **FILLED}[f"XLA_FFI_{struct}"][name]


def size(struct: str) -> int:
    """What a structure that a program fills says about its size: the end of its last field."""
    return max(one.end for one in FILLED[f"XLA_FFI_{struct}"].values())


@functools.cache
def refusal() -> str:
    """Why native programs cannot be used with the XLA at hand; empty if they can."""
    import jax

    return refusal_of(Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h")


def refusal_of(header: Path) -> str:
    """Why native programs cannot be used with the XLA of this header; empty if they can."""
    try:
        text = header.read_text(encoding="utf-8")
    except OSError:
        return f"jaxlib has no {header.name}, so XLA's interface cannot be checked"
    return difference(text)


def difference(header: str) -> str:
    """The first thing in which an interface differs from the one that programs are written for; empty if in nothing."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", header, flags=re.DOTALL)
    major, minor = (_defined(text, f"XLA_FFI_API_{part}") for part in ("MAJOR", "MINOR"))
    mine = ".".join(map(str, VERSION))
    if major is None or minor is None:
        return "the version of XLA's interface cannot be read"
    if major != VERSION[0] or minor < VERSION[1]:
        return f"XLA's interface has version {major}.{minor}, programs are written for {mine}"
    try:
        found = _structs(text)
        numbers = {name: int(value) for name, value in re.findall(r"\b(XLA_FFI_\w+)\s*=\s*(\d+)\b", text)}
        for name, layout in {**READ, **FILLED}.items():
            for one, expected in layout.items():
                if found[name][one] != expected:
                    return f"{name}.{one} of XLA's interface is not where programs look for it"
        for name, layout in FILLED.items():
            if found[name] != layout:
                return f"{name} of XLA's interface has other fields than programs fill"
        for name, value in CONSTANTS.items():
            if numbers[name] != value:
                return f"{name} of XLA's interface is {numbers[name]}, not {value}"
    except KeyError as unknown:
        return f"XLA's interface cannot be read: {unknown.args[0]} is missing or of another kind"
    return ""


def _defined(text: str, name: str) -> int | None:
    found = re.search(rf"^\s*#\s*define\s+{name}\s+(\d+)\s*$", text, flags=re.MULTILINE)
    return int(found.group(1)) if found else None


def _structs(text: str) -> dict[str, Layout]:
    """All structures of a header as a C compiler for 64-bit Linux lays them out; a `KeyError` names an unknown type.

    Fields of a structure inside another have names with a point: types may be renamed without any harm.
    """
    sizes = {"size_t": 8, "int64_t": 8, "uint64_t": 8, "int": 4, "int32_t": 4, "uint32_t": 4}
    aligned = dict(sizes)
    for name in re.findall(r"typedef\s+enum\s*\w*\s*\{[^}]*\}\s*(\w+)\s*;", text):
        sizes[name] = aligned[name] = 4
    for known, name in re.findall(r"typedef\s+(\w+)\s+(\w+)\s*;", text):
        if known in sizes:
            sizes[name], aligned[name] = sizes[known], aligned[known]
    found: dict[str, Layout] = {}
    for name, body in re.findall(r"struct\s+(\w+)\s*\{([^{}]*)\}", text):
        fields, offset, most = {}, 0, 1
        for declaration in filter(None, (line.strip() for line in body.split(";"))):
            kind, one = _declared(declaration)
            length, align = (POINTER, POINTER) if kind == "*" else (sizes[kind], aligned[kind])
            offset = -(-offset // align) * align
            fields[one] = StructField(offset, length)
            for name_inside, inside in found.get(kind, {}).items():
                fields[f"{one}.{name_inside}"] = StructField(offset + inside.offset, inside.size)
            offset, most = offset + length, max(most, align)
        found[name] = fields
        sizes[name], aligned[name] = -(-offset // most) * most, most
    return found


def _declared(text: str) -> tuple[str, str]:
    """Type (`*` for any pointer) and name of a field.

    >>> _declared("const XLA_FFI_Api* api"), _declared("int major"), _declared("void (*deleter)(void* object)")
    (('*', 'api'), ('int', 'major'), ('*', 'deleter'))
    >>> _declared("_XLA_FFI_API_STRUCT_FIELD(XLA_FFI_Error_Create)")
    ('*', 'XLA_FFI_Error_Create')
    """
    for pattern in (r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\)", r".*\(\s*\*\s*(\w+)\s*\).*", r".*\*\s*(\w+)"):
        pointer = re.fullmatch(pattern, text, flags=re.DOTALL)
        if pointer:
            return "*", pointer.group(1)
    plain = re.fullmatch(r"(?:\w+\s+)*?(\w+)\s+(\w+)", text)
    if not plain:  # an array, a field of some bits
        raise KeyError(text)
    return plain.group(1), plain.group(2)


__all__ = [
    "CONSTANTS",
    "FILLED",
    "READ",
    "VERSION",
    "StructField",
    "difference",
    "field",
    "refusal",
    "refusal_of",
    "size",
]
