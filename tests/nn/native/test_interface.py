"""Interfaces that native programs are not written for are recognised by their header."""

import re
from pathlib import Path

import jax
import pytest

from chainrule.nn.native import interface

SHIPPED = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"


@pytest.fixture(scope="module")
def header() -> str:
    """One that programs are written for, as short as it can be: what jaxlib ships may be of another version."""
    return """
#define XLA_FFI_API_MAJOR 0   // a remark
#define XLA_FFI_API_MINOR 3
typedef enum { XLA_FFI_Extension_Metadata = 1, } XLA_FFI_Extension_Type;
typedef enum {
  XLA_FFI_Error_Code_INVALID_ARGUMENT = 3,
  XLA_FFI_Error_Code_RESOURCE_EXHAUSTED = 8,
  XLA_FFI_Error_Code_FAILED_PRECONDITION = 9
} XLA_FFI_Error_Code;
typedef enum { XLA_FFI_DataType_F32 = 11 } XLA_FFI_DataType;
typedef enum { XLA_FFI_Stage_EXECUTE = 3 } XLA_FFI_Stage;
typedef uint32_t XLA_FFI_Handler_Traits;
typedef struct XLA_FFI_Extension_Base {
  size_t struct_size;
  XLA_FFI_Extension_Type type;
  struct XLA_FFI_Extension_Base* next;
} XLA_FFI_Extension_Base;
struct XLA_FFI_Api_Version {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  int major_version;  // out
  int minor_version;
};
struct XLA_FFI_Error_Create_Args {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  const char* message;
  XLA_FFI_Error_Code errc;
};
struct XLA_FFI_Error_Destroy_Args {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_Error* error;
};
struct XLA_FFI_Buffer {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_DataType dtype;
  void* data;
};
struct XLA_FFI_Args {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  int64_t size;
  XLA_FFI_ArgType* types;
  void** args;
};
struct XLA_FFI_Rets {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  int64_t size;
  XLA_FFI_RetType* types;
  void** rets;
};
struct XLA_FFI_CallFrame {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  const XLA_FFI_Api* api;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_Stage stage;
  XLA_FFI_Args args;
  XLA_FFI_Rets rets;
};
typedef struct XLA_FFI_TypeId { int64_t type_id; } XLA_FFI_TypeId;
struct XLA_FFI_ThreadPool_Schedule_Args {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_Task* task;
  void* data;
};
struct XLA_FFI_Metadata {
  size_t struct_size;
  XLA_FFI_Api_Version api_version;
  XLA_FFI_Handler_Traits traits;
  XLA_FFI_TypeId state_type_id;
};
struct XLA_FFI_Metadata_Extension {
  XLA_FFI_Extension_Base extension_base;
  XLA_FFI_Metadata* metadata;
};
struct XLA_FFI_Api {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_Api_Version api_version;
  const XLA_FFI_InternalApi* internal_api;
  _XLA_FFI_API_STRUCT_FIELD(XLA_FFI_Error_Create);
  void (*get_message)(void* args);
  _XLA_FFI_API_STRUCT_FIELD(XLA_FFI_Error_Destroy);
  void* four_to_eight; void* a; void* b; void* c; void* d; void* e; void* f; void* g;
  _XLA_FFI_API_STRUCT_FIELD(XLA_FFI_ThreadPool_Schedule);
};
"""


def test_what_programs_are_written_for_is_accepted(header: str) -> None:
    assert interface.difference(header) == ""


@pytest.mark.skipif(not SHIPPED.exists(), reason="jaxlib ships no header")
def test_the_header_that_ships_with_jaxlib_can_be_read() -> None:
    found = interface._structs(re.sub(r"//[^\n]*|/\*.*?\*/", "", SHIPPED.read_text(), flags=re.DOTALL))
    assert interface.READ.keys() | interface.FILLED.keys() <= found.keys()
    assert interface.refusal() == interface.refusal_of(SHIPPED)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("MAJOR 0", "MAJOR 1", "XLA's interface has version 1.3, programs are written for 0.3"),
        ("MINOR 3", "MINOR 2", "XLA's interface has version 0.2, programs are written for 0.3"),
        ("#define XLA_FFI_API_MAJOR 0", "", "the version of XLA's interface cannot be read"),
        (
            "const XLA_FFI_Api* api;\n  XLA_FFI_ExecutionContext* ctx;",
            "XLA_FFI_ExecutionContext* ctx;\n  const XLA_FFI_Api* api;",
            "XLA_FFI_CallFrame.api of XLA's interface is not where programs look for it",
        ),
        (
            "int64_t size;\n  XLA_FFI_ArgType",
            "int64_t rank;\n  int64_t size;\n  XLA_FFI_ArgType",
            "XLA_FFI_CallFrame.args.size",
        ),
        ("XLA_FFI_DataType dtype", "int64_t dtype; int64_t device", "XLA_FFI_Buffer"),
        ("int major_version", "int64_t major_version", "XLA_FFI_CallFrame|XLA_FFI_Api"),
        (
            "XLA_FFI_Task* task;\n  void* data;",
            "void* data;\n  XLA_FFI_Task* task;",
            "ThreadPool_Schedule_Args.task",
        ),
        (
            "  XLA_FFI_Error* error;",
            "  XLA_FFI_Error* error;\n  int64_t reason;",
            "XLA_FFI_Error_Destroy_Args of XLA's interface has other fields than programs fill",
        ),
        (
            "FAILED_PRECONDITION = 9",
            "FAILED_PRECONDITION = 10",
            "FAILED_PRECONDITION of XLA's interface is 10, not 9",
        ),
        ("struct XLA_FFI_Buffer {", "struct XLA_FFI_Array {", "cannot be read: XLA_FFI_Buffer is missing"),
        ("int64_t size;", "int64_t size[2];", "cannot be read: int64_t size"),
        ("int64_t size;", "__int128 size;", "cannot be read: __int128"),
    ],
)
def test_everything_that_differs_is_told(header: str, old: str, new: str, expected: str) -> None:
    assert old in header
    assert re.search(expected, interface.difference(header.replace(old, new)))


def test_types_with_other_names_do_no_harm(header: str) -> None:
    renamed = header.replace("XLA_FFI_Extension_Base", "XLA_FFI_InternalExtension")
    assert interface.difference(renamed.replace("XLA_FFI_Api_Version", "XLA_FFI_Version")) == ""


def test_what_is_added_at_the_end_of_what_xla_makes_does_no_harm(header: str) -> None:
    longer = header.replace(
        "_XLA_FFI_API_STRUCT_FIELD(XLA_FFI_ThreadPool_Schedule);",
        "_XLA_FFI_API_STRUCT_FIELD(XLA_FFI_ThreadPool_Schedule);\n  _XLA_FFI_API_STRUCT_FIELD(XLA_FFI_New);",
    ).replace("MINOR 3", "MINOR 7")
    assert interface.difference(longer) == ""


def test_a_missing_header_is_a_refusal(tmp_path: Path) -> None:
    expected = "jaxlib has no c_api.h, so XLA's interface cannot be checked"
    assert interface.refusal_of(tmp_path / "c_api.h") == expected
