"""libsnug.so through ctypes: the functions of snug/c.h, which give an error or nothing.

ctypes releases the interpreter's lock in each call, and needs no header of Python: so one wheel serves every version.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from typing import Any, Callable, List, Tuple, Union

from ._errors import error_of

FLOAT32, BFLOAT16, FLOAT64, INT32, INT64, UINT8 = range(6)


class CMemory(ctypes.Structure):
    _fields_ = [("state_bytes", ctypes.c_int64), ("step_bytes", ctypes.c_int64), ("lower_bound", ctypes.c_int64),
                ("proven", ctypes.c_int32), ("strategy", ctypes.c_char * 60), ("reserved", ctypes.c_int64 * 4)]


class CTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_int32),
                ("dtype", ctypes.c_int32), ("reserved", ctypes.c_int64 * 2)]

    def dims(self) -> Tuple[int, ...]:
        return tuple(self.shape[:self.rank])


_POINTER, _TEXT, _INT, _INT64, _DOUBLE = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int64,
                                          ctypes.c_double)
# The functions that return an error, and what they take; handles and places for results are pointers.
_FALLIBLE = {
    "network_from_file": [_TEXT, _POINTER],
    "network_from_text": [_TEXT, _TEXT, _POINTER],
    "network_to_text": [_POINTER, _POINTER],
    "network_with_classes": [_POINTER, _INT64, _POINTER],
    "options_new": [_POINTER],
    "options_set_integer": [_POINTER, _TEXT, _INT64],
    "options_set_number": [_POINTER, _TEXT, _DOUBLE],
    "options_set_text": [_POINTER, _TEXT, _TEXT],
    "plan": [_POINTER, _POINTER, _POINTER],
    "plan_report": [_POINTER, _POINTER, _POINTER],
    "strategies": [_POINTER, _POINTER],
    "session_create": [_POINTER, _POINTER, _POINTER],
    "feed": [_POINTER, _INT, _TEXT, _POINTER, _INT64, _INT],
    "feed_rows": [_POINTER, _INT, _TEXT, _POINTER, _INT64, _INT, _POINTER],
    "step": [_POINTER, _INT],
    "fetch": [_POINTER, _INT, _TEXT, _POINTER, _INT64, _INT],
    "fetch_scalar": [_POINTER, _INT, _TEXT, _POINTER],
    "input": [_POINTER, _INT, _TEXT, _POINTER],
    "output": [_POINTER, _INT, _TEXT, _POINTER],
    "input_type": [_POINTER, _INT, _TEXT, _POINTER],
    "output_type": [_POINTER, _INT, _TEXT, _POINTER],
    "bind": [_POINTER, _INT, _TEXT, _POINTER, _INT64, _INT, _INT],
    "inputs": [_POINTER, _INT, _POINTER],
    "outputs": [_POINTER, _INT, _POINTER],
    "batch": [_POINTER, _INT, _POINTER],
    "session_memory": [_POINTER, _INT, _POINTER],
    "variables": [_POINTER, _POINTER],
    "parameters": [_POINTER, _POINTER],
    "variable": [_POINTER, _TEXT, _POINTER],
    "set_variable": [_POINTER, _TEXT, _POINTER, _INT64, _INT],
    "set_learning_rate": [_POINTER, _DOUBLE],
    "learning_rate": [_POINTER, _POINTER],
    "save": [_POINTER, _TEXT, _INT, _POINTER],
    "restore": [_POINTER, _TEXT, _INT],
    "array_new": [_INT, _POINTER, ctypes.c_int32, _POINTER],
    "array_of": [_POINTER, _POINTER, _POINTER],
    "array_tensor": [_POINTER, _POINTER],
    "array_dlpack": [_POINTER, _INT, _POINTER],
}
# All others, with what they return.
_OTHERS = {
    "error_code": (_INT, [_POINTER]),
    "error_message": (_TEXT, [_POINTER]),
    "error_free": (None, [_POINTER]),
    "version": (_TEXT, []),
    "text_free": (None, [_POINTER]),
    "names_count": (ctypes.c_size_t, [_POINTER]),
    "names_at": (_TEXT, [_POINTER, ctypes.c_size_t]),
    "names_free": (None, [_POINTER]),
    "network_free": (None, [_POINTER]),
    "options_free": (None, [_POINTER]),
    "session_free": (None, [_POINTER]),
    "array_free": (None, [_POINTER]),
    "stop": (None, [_POINTER, _INT]),
    "steps": (_INT64, [_POINTER]),
}


def _load() -> ctypes.CDLL:
    """The library of this package, or the one that SNUG_LIBRARY names, to work with a build tree."""
    path = os.environ.get("SNUG_LIBRARY") or str(pathlib.Path(__file__).resolve().parent / "_lib" / "libsnug.so")
    if not os.path.exists(path):
        raise ImportError(f"snug: expected its library at {path}, found none: install the package by pip, or let the "
                          "environment variable SNUG_LIBRARY name a libsnug.so")
    # libgomp reads this once, as it is loaded. Its idle threads would spin for milliseconds and keep a busy machine's
    # processors from the threads that they wait for (docs/environment.md).
    quiet = "GOMP_SPINCOUNT" not in os.environ and "OMP_WAIT_POLICY" not in os.environ
    if quiet:
        os.environ["GOMP_SPINCOUNT"] = "10000"
    try:
        library = ctypes.CDLL(path)
    finally:
        if quiet:
            del os.environ["GOMP_SPINCOUNT"]
    try:
        for name, arguments in _FALLIBLE.items():
            function = getattr(library, f"snug_{name}")
            function.restype, function.argtypes = _POINTER, arguments
        for name, (result, arguments) in _OTHERS.items():
            function = getattr(library, f"snug_{name}")
            function.restype, function.argtypes = result, arguments
    except AttributeError as missing:
        raise ImportError(f"snug: {path} is of another version than this package: {missing}") from None
    return library


lib = _load()


def check(error: Any) -> None:
    """Raises what a function of the library returned, if that is an error."""
    if error:
        code, message = lib.snug_error_code(error), lib.snug_error_message(error).decode(errors="replace")
        lib.snug_error_free(error)
        raise error_of(code, message)


def made(function: Callable[..., Any], *arguments: Any) -> ctypes.c_void_p:
    """What a function gives through its last argument."""
    result = ctypes.c_void_p()
    check(function(*arguments, ctypes.byref(result)))
    return result


def text_of(handle: ctypes.c_void_p) -> str:
    try:
        return ctypes.string_at(handle.value or 0).decode()
    finally:
        lib.snug_text_free(handle)


def names_of(handle: ctypes.c_void_p) -> List[str]:
    try:
        return [lib.snug_names_at(handle, i).decode() for i in range(lib.snug_names_count(handle))]
    finally:
        lib.snug_names_free(handle)


# PyCapsule_New keeps these pointers, so the texts must last as long as the process.
_NAMES = {name: ctypes.create_string_buffer(name.encode())
          for name in ("dltensor", "dltensor_versioned", "snug_array", "snug_network", "snug_session")}
_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))
_capsule_set_context = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(
    ("PyCapsule_SetContext", ctypes.pythonapi))
_capsule_free = ctypes.cast(lib.snug_capsule_free, ctypes.c_void_p).value


def owned(handle: ctypes.c_void_p, name: str, *, here_only: bool = False) -> Any:
    """An object that frees the handle as it goes; with `here_only` in this process alone, not in a fork of it.

    It is a capsule, whose destructor is C. Within a `__del__`, what the handler of a signal raises would be lost, so
    that Ctrl-C did nothing now and then.
    """
    capsule = _capsule_new(handle, ctypes.addressof(_NAMES[name]), _capsule_free)
    if here_only:
        _capsule_set_context(capsule, os.getpid())
    return capsule


def encoded(what: str, text: Union[str, "os.PathLike[str]"]) -> bytes:
    """A text for the library, which takes those that C can have."""
    raw = os.fsencode(text)
    if b"\0" in raw:
        raise error_of(3, f"{what}: expected no NUL in the text, found one")
    return raw
