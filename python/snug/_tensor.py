"""Numbers in memory: those that the library gives, and those that it is given."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _library
from ._errors import DTypeError, Error
from ._library import CTensor, check, lib, made, owned

# By the numbers of snug_dtype: name, bytes, the code of NumPy's `__array_interface__`.
DTYPES = ("float32", "bfloat16", "float64", "int32", "int64", "uint8")
ITEM_BYTES = (4, 2, 8, 4, 8, 1)
TYPESTR = ("<f4", None, "<f8", "<i4", "<i8", "|u1")
C_TYPES = (ctypes.c_float, ctypes.c_uint16, ctypes.c_double, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint8)


def dtype_number(dtype: Any) -> int:
    """The library's number of a type, by its name or as NumPy and PyTorch say it (numpy.float32, torch.float32)."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    name = name.rsplit(".", 1)[-1]
    if name not in DTYPES:
        raise DTypeError(f"dtype: expected one of {', '.join(DTYPES)}, found {name!r}")
    return DTYPES.index(name)


_KDL_CPU = 1


class Tensor:
    """Numbers in memory, row-major, that other libraries can look at without a copy.

    `numpy.asarray(tensor)`, `torch.from_dlpack(tensor)` and everything else that knows DLPack or NumPy's array
    interface sees these very bytes. They stay as long as anybody looks at them, also when the session is closed. A
    tensor is a view of the session (`copy=False`, parameters, `input`, `output`) or owns its numbers; `is_view` tells.
    """

    __slots__ = ("_handle", "_owner", "shape", "_number", "address", "is_view", "__weakref__")

    shape: Tuple[int, ...]
    address: int  #: where the first number lies
    is_view: bool  #: whether the bytes belong to a session, whose next step may change them

    def __init__(self, handle: ctypes.c_void_p, is_view: bool) -> None:
        # In a fork, freeing the last owner of a session would wait for threads that stayed in the other process.
        self._handle, self._owner = handle, owned(handle, "snug_array", here_only=is_view)
        self.is_view = is_view
        tensor = CTensor()
        check(lib.snug_array_tensor(handle, ctypes.byref(tensor)))
        self.shape, self._number, self.address = tensor.dims(), tensor.dtype, tensor.data or 0

    @property
    def dtype(self) -> str:
        """The name of the type of the elements, such as "float32"."""
        return DTYPES[self._number]

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        size = 1
        for dim in self.shape:
            size *= dim
        return size

    @property
    def nbytes(self) -> int:
        """How many bytes the numbers take."""
        return self.size * ITEM_BYTES[self._number]

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        typestr = TYPESTR[self._number]
        if typestr is None:
            # An AttributeError, so that hasattr() is false and NumPy goes on to say what it can.
            raise AttributeError("NumPy has no bfloat16: take torch.from_dlpack(tensor), or tensor.astype(\"float32\")")
        return {"version": 3, "shape": self.shape, "typestr": typestr, "data": (self.address, False), "strides": None}

    def __dlpack_device__(self) -> Tuple[int, int]:
        return _KDL_CPU, 0

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Optional[Tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        if stream is not None:
            raise BufferError(f"stream: expected None for the processor's memory, found {stream!r}")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"dl_device: expected (1, 0), the processor's memory, found {dl_device!r}")
        if copy:
            return self.copy().__dlpack__(max_version=max_version)
        versioned = max_version is not None and max_version[0] >= 1
        managed = made(lib.snug_array_dlpack, self._handle, int(versioned))
        # The capsule owns it until a consumer takes it over and renames the capsule.
        return owned(managed, "dltensor_versioned" if versioned else "dltensor")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        # NumPy asks for this where there is no array interface. It would take the tensor for an object of its own else.
        raise DTypeError('NumPy has no bfloat16: take torch.from_dlpack(tensor), or tensor.astype("float32")')

    def numpy(self) -> Any:
        """A NumPy array of the same bytes. It needs NumPy."""
        if TYPESTR[self._number] is None:
            return self.__array__()
        import numpy
        return numpy.asarray(self)

    def _elements(self) -> Any:
        return (C_TYPES[self._number] * self.size).from_address(self.address)

    def astype(self, dtype: Any) -> "Tensor":
        """A copy whose elements are of another type; "float32" of bfloat16 loses nothing."""
        number = dtype_number(dtype)
        if number == self._number:
            return self.copy()
        if number == _library.BFLOAT16:
            raise DTypeError("dtype: expected a type that C has, found bfloat16")
        if self._number < _library.INT32 <= number:
            raise DTypeError(f"dtype: expected a type for {self.dtype}, found {DTYPES[number]}, which has no fractions")
        result = empty(self.shape, dtype)
        target = result._elements()
        for i, value in enumerate(self._flat()):
            target[i] = value
        return result

    def copy(self) -> "Tensor":
        """The same numbers, in memory of their own."""
        result = empty(self.shape, self.dtype)
        ctypes.memmove(result.address, self.address, self.nbytes)
        return result

    def _flat(self) -> Sequence[Any]:
        elements: Sequence[Any] = self._elements()
        if self._number == _library.BFLOAT16:
            wide = (ctypes.c_uint32 * self.size)(*(bits << 16 for bits in elements))  # the upper half of a float32
            widened: Any = (ctypes.c_float * self.size).from_buffer(wide)
            elements = widened
        return elements

    def item(self) -> Any:
        """The number, where there is one only."""
        if self.size != 1:
            raise Error(f"expected a tensor of one number, found shape {self.shape}")
        return self._flat()[0]

    def tolist(self) -> Any:
        """The numbers as lists of lists."""
        def part(flat: Sequence[Any], shape: Tuple[int, ...]) -> Any:
            if not shape:
                return flat[0]
            step = len(flat) // shape[0] if shape[0] else 0
            return [part(flat[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]
        return part(self._flat()[:], self.shape)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of one number")
        return self.shape[0]

    def __repr__(self) -> str:
        if self.size <= 8:
            return f"snug.Tensor({self.tolist()!r}, dtype={self.dtype!r})"
        return f"<snug.Tensor shape={self.shape} dtype={self.dtype!r}>"


def empty(shape: Sequence[int], dtype: Any = "float32") -> Tensor:
    """Memory for numbers, not set to anything, that begins at a multiple of 64 bytes.

    Steps can use it in place, as a session's `bound` inputs and outputs: `numpy.asarray(snug.empty((32, 784)))`.
    """
    dims: List[int] = [int(dim) for dim in ([shape] if isinstance(shape, int) else shape)]
    handle = made(lib.snug_array_new, dtype_number(dtype), (ctypes.c_int64 * len(dims))(*dims), len(dims))
    return Tensor(handle, is_view=False)
