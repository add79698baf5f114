"""What lasts from step to step, by name."""

from __future__ import annotations

import ctypes
from typing import Any, Iterator, MutableMapping

from ._given import given
from ._library import CTensor, check, encoded, lib, made, names_of
from ._state import State
from ._tensor import Tensor


class Variables(MutableMapping[str, Tensor]):
    """Variables by name: views of the session's own memory. Assigning one copies numbers into it."""

    def __init__(self, state: State, listing: Any) -> None:
        self._state = state
        with state.use() as handle:
            self._names = names_of(made(listing, handle))

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        tensor = CTensor()
        with self._state.use() as handle:
            check(lib.snug_variable(handle, encoded("name", name), ctypes.byref(tensor)))
            return Tensor(made(lib.snug_array_of, handle, ctypes.byref(tensor)), is_view=True)

    def __setitem__(self, name: str, value: Any) -> None:
        shape = self[name].shape
        numbers = given(f'variable "{name}"', value)
        numbers.expect_shape(shape)
        with self._state.use() as handle:
            check(lib.snug_set_variable(handle, encoded("name", name), numbers.address, numbers.size, numbers.number))

    def __delitem__(self, name: str) -> None:
        raise TypeError("a session's Variables stay")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
