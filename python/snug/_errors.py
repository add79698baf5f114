"""What goes wrong, as exceptions. All of them are `snug.Error`."""

from __future__ import annotations

from typing import Any, Tuple

_CODES = {
    1: "CANCELLED", 2: "UNKNOWN", 3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 6: "ALREADY_EXISTS", 7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED", 9: "FAILED_PRECONDITION", 10: "ABORTED", 11: "OUT_OF_RANGE", 12: "UNIMPLEMENTED",
    13: "INTERNAL", 14: "UNAVAILABLE", 15: "DATA_LOSS",
}


class Error(Exception):
    """Something that cannot be done.

    The text says where (`mlp.pbtxt:4:30: layer "fc1" (dense): ...`, a line for each mistake), what was expected and
    what was found. `code` is one of the names that gRPC and Abseil use, such as "INVALID_ARGUMENT", "NOT_FOUND",
    "RESOURCE_EXHAUSTED" (memory or disk at its end) or "INTERNAL" (a bug in Snug).
    """

    def __init__(self, message: str, code: str = "INVALID_ARGUMENT") -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> Tuple[Any, ...]:  # so that it comes back from a process of multiprocessing
        return type(self), (str(self), self.code)


class ShapeError(Error, ValueError):
    """An array has another shape than what it is for."""


class DTypeError(Error, TypeError):
    """An array has elements of a type that cannot be used, or that would lose something."""


class NotContiguousError(Error, ValueError):
    """An array's elements do not lie one behind the other, in C's order."""


class DeviceError(Error, ValueError):
    """An array is not in the processor's memory."""


class AlignmentError(Error, ValueError):
    """An array that is to be used in place begins at an address that steps cannot use."""


class ClosedError(Error, ValueError):
    """A session was used after it was closed."""

    def __init__(self, message: str, code: str = "FAILED_PRECONDITION") -> None:
        super().__init__(message, code)


class BusyError(Error, RuntimeError):
    """A session was used while another thread uses it."""

    def __init__(self, message: str, code: str = "FAILED_PRECONDITION") -> None:
        super().__init__(message, code)


class ProcessError(Error, RuntimeError):
    """A session was used in another process than the one that made it."""

    def __init__(self, message: str, code: str = "FAILED_PRECONDITION") -> None:
        super().__init__(message, code)


def error_of(code: int, message: str) -> Error:
    return Error(message, _CODES.get(code, "UNKNOWN"))
