"""What the caller gives as numbers: anything that knows NumPy's array interface, DLPack or Python's buffers, and
lists."""

from __future__ import annotations

import array
import ctypes
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _library
from ._errors import AlignmentError, DeviceError, DTypeError, Error, NotContiguousError, ShapeError
from ._tensor import DTYPES, ITEM_BYTES, Tensor

ALIGNMENT = 64  # that numbers have which steps use in place
_TYPESTRS = {"<f4": 0, "<f8": 2, "<i4": 3, "<i8": 4, "|u1": 5, "<u1": 5}
_FORMATS = {"f": 0, "d": 2, "i": 3, "l": 4, "q": 4, "B": 5}
_DLPACK_TYPES = {(2, 32): 0, (4, 16): 1, (2, 64): 2, (0, 32): 3, (0, 64): 4, (1, 8): 5}
_DLPACK_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_DLPACK_DEVICES = {1: "cpu", 2: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm",
                   11: "rocm_host", 13: "cuda_managed", 14: "oneapi"}
_ON_HOST = (1, 3, 11)
_TO_HOST = "move them there: tensor.cpu() of PyTorch, cupy.asnumpy(array), jax.device_get(array)"


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_READ_ONLY, _IS_COPIED = 1, 2  # flags
# Libraries whose arrays never change, and which hand them on by the protocol that cannot say so (JAX 0.10 does).
_NEVER_WRITTEN = ("jax", "jaxlib")
_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))


class Given:
    """Numbers of the caller's: where they are, of what type and shape, and what keeps them there."""

    __slots__ = ("what", "address", "number", "shape", "writable", "keeps", "value")

    def __init__(self, what: str, address: int, number: int, shape: Tuple[int, ...], writable: bool, keeps: Any,
                 value: Any = None) -> None:
        self.what, self.address, self.number, self.shape = what, address, number, shape
        self.writable, self.keeps = writable, keeps
        self.value = keeps if value is None else value  # as the caller gave it

    @property
    def size(self) -> int:
        size = 1
        for dim in self.shape:
            size *= dim
        return size

    def expect_shape(self, shape: Tuple[int, ...]) -> None:
        if self.shape != shape:
            raise ShapeError(f"{self.what}: expected shape {shape}, found {self.shape}")

    def expect_for(self, number: int) -> None:
        """That the library can convert these to its own type, without fractions becoming integers."""
        if number >= _library.INT32 > self.number:
            raise DTypeError(f"{self.what}: expected integers for {DTYPES[number]}, found {DTYPES[self.number]}")

    def expect_in_place(self, number: int) -> None:
        """That a step can use these bytes themselves."""
        if self.number != number:
            raise DTypeError(f"{self.what}: it is bound, so its bytes are used in place: expected {DTYPES[number]}, "
                             f"found {DTYPES[self.number]}")
        if self.address % ALIGNMENT != 0:
            raise AlignmentError(f"{self.what}: it is bound, so its bytes are used in place: expected them to begin at "
                                 f"a multiple of {ALIGNMENT} bytes, found {self.address % ALIGNMENT} beyond one; "
                                 "snug.empty gives memory that does")


def _contiguous(shape: Sequence[int], strides: Optional[Sequence[int]], item: int) -> bool:
    if strides is None or 0 in shape:
        return True
    expected = item
    for dim, stride in zip(reversed(shape), reversed(strides)):
        if dim != 1 and stride != expected:
            return False
        expected *= dim
    return True


def _expect_contiguous(what: str, shape: Sequence[int], strides: Optional[Sequence[int]], item: int) -> None:
    if not _contiguous(shape, strides, item):
        raise NotContiguousError(f"{what}: expected numbers one behind the other, row by row, found strides "
                                 f"{tuple(strides or ())} of shape {tuple(shape)}: give "
                                 "numpy.ascontiguousarray(array), or tensor.contiguous()")


def _wrong_type(what: str, found: str) -> DTypeError:
    return DTypeError(f"{what}: expected elements of one of {', '.join(DTYPES)}, found {found}")


def _by_array_interface(what: str, value: Any, interface: Dict[str, Any]) -> Given:
    number = _TYPESTRS.get(interface["typestr"])
    if number is None:
        raise _wrong_type(what, str(getattr(value, "dtype", interface["typestr"])))
    shape = tuple(interface["shape"])
    data = interface.get("data")
    if not isinstance(data, tuple):  # the interface allows a buffer in its place
        return _by_buffer(what, value, memoryview(value))
    _expect_contiguous(what, shape, interface.get("strides"), ITEM_BYTES[number])
    return Given(what, data[0], number, shape, not data[1], value)


def _by_dlpack(what: str, value: Any) -> Given:
    device = int(value.__dlpack_device__()[0])
    if device not in _ON_HOST:
        name = _DLPACK_DEVICES.get(device, f"DLPack's device {device}")
        raise DeviceError(f"{what}: expected numbers in the processor's memory, found them on {name}: {_TO_HOST}")
    try:
        try:
            capsule = value.__dlpack__(max_version=(1, 0))
        except TypeError:  # a producer of before version 1, which has no such argument
            capsule = value.__dlpack__()
        versioned = bool(_is_capsule(capsule, b"dltensor_versioned"))
        address = _pointer_in(capsule, b"dltensor_versioned" if versioned else b"dltensor")
    except Exception as refused:
        raise Error(f"{what}: its library does not hand it on by DLPack: {refused}") from refused
    # Before version 1 nobody said.
    writable = type(value).__module__.split(".")[0] not in _NEVER_WRITTEN
    if versioned:
        managed = _DLManagedTensorVersioned.from_address(address)
        if managed.major != 1:
            raise Error(f"{what}: expected DLPack of version 1, found version {managed.major}.{managed.minor}")
        # What is written into a copy would be lost.
        writable = writable and not managed.flags & (_READ_ONLY | _IS_COPIED)
        tensor = managed.tensor
    else:
        tensor = _DLTensor.from_address(address)
    number = _DLPACK_TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if number is None:
        raise _wrong_type(what, f"{_DLPACK_CODES.get(tensor.code, 'elements of another kind, ')}{tensor.bits}")
    shape = tuple(tensor.shape[:tensor.ndim])
    strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else None
    _expect_contiguous(what, shape, strides, 1)
    # The capsule owns the tensor: its destructor gives it back when nobody here needs the bytes any more.
    return Given(what, (tensor.data or 0) + tensor.byte_offset, number, shape, writable, capsule, value)


def _by_buffer(what: str, value: Any, view: memoryview) -> Given:
    number = _FORMATS.get(view.format.lstrip("@=<")) if view.format else None
    if number is None or (view.format in ("l", "@l") and view.itemsize != 8):
        raise _wrong_type(what, f"Python's format {view.format!r}")
    _expect_contiguous(what, view.shape or (), view.strides, view.itemsize)
    if view.readonly:
        held = ctypes.create_string_buffer(view.tobytes(), max(view.nbytes, 1))
        return Given(what, ctypes.addressof(held), number, tuple(view.shape or ()), False, held, value)
    held = (ctypes.c_char * view.nbytes).from_buffer(view) if view.nbytes else ctypes.create_string_buffer(1)
    return Given(what, ctypes.addressof(held), number, tuple(view.shape or ()), True, held, value)


def _shape_of(what: str, value: Any) -> Tuple[int, ...]:
    shape: List[int] = []
    while isinstance(value, (list, tuple)):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _by_numbers(what: str, value: Any) -> Given:
    shape = _shape_of(what, value)
    flat: List[Any] = []

    def gather(part: Any, dims: Tuple[int, ...]) -> None:
        if not dims:
            if isinstance(part, bool) or not isinstance(part, (int, float)):
                raise DTypeError(f"{what}: expected numbers, found {type(part).__name__}")
            flat.append(part)
            return
        if not isinstance(part, (list, tuple)) or len(part) != dims[0]:
            raise ShapeError(f"{what}: expected lists of one length, as their first has shape {shape}, found another")
        for element in part:
            gather(element, dims[1:])

    gather(value, shape)
    whole = all(isinstance(number, int) for number in flat)
    try:
        numbers = array.array("q" if whole else "d", flat)
    except OverflowError:
        raise DTypeError(f"{what}: expected integers of 64 bits, found one that is larger") from None
    return Given(what, numbers.buffer_info()[0], _library.INT64 if whole else _library.FLOAT64, shape, True, numbers)


def given(what: str, value: Any) -> Given:
    """`value` as numbers, without a copy where it is an array. `what` begins each message."""
    if isinstance(value, Tensor):
        return Given(what, value.address, value._number, value.shape, True, value)
    interface = getattr(value, "__array_interface__", None)
    if interface is not None and not interface["shape"] and hasattr(value, "item"):
        # One number of NumPy's: its interface points to memory that is gone already.
        return _by_numbers(what, value.item())
    if interface is not None:
        return _by_array_interface(what, value, interface)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _by_dlpack(what, value)
    if hasattr(value, "__cuda_array_interface__"):
        raise DeviceError(f"{what}: expected numbers in the processor's memory, found them on a GPU: {_TO_HOST}")
    if isinstance(value, (int, float, list, tuple)) and not isinstance(value, bool):
        return _by_numbers(what, value)
    try:
        view = memoryview(value)
    except TypeError:
        raise DTypeError(f"{what}: expected an array (NumPy's, PyTorch's, anything that knows DLPack or Python's "
                         f"buffers) or lists of numbers, found {type(value).__name__}") from None
    return _by_buffer(what, value, view)
