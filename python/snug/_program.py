"""Programs: what is fed, run and fetched, step by step or for many samples."""

from __future__ import annotations

import ctypes
import dataclasses
import time
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ._calls import SHORT_SECONDS, on_main_thread
from ._errors import Error, ShapeError
from ._given import Given, given
from ._library import CMemory, CTensor, check, encoded, lib, made, names_of
from ._plan import Memory
from ._state import State
from ._tensor import DTYPES, Tensor, empty


@dataclasses.dataclass(frozen=True)
class TensorType:
    """Shape and type of the elements of an input or output."""

    shape: Tuple[int, ...]
    dtype: str


class Program:
    """One compiled form of a session's network: what is fed, run and fetched."""

    def __init__(self, state: State, number: int, bound: Sequence[str], keep_inputs: bool) -> None:
        self._state, self._number = state, number
        self._keep_inputs = keep_inputs
        with state.use() as handle:
            self._inputs = {name: self._type(lib.snug_input_type, handle, name)
                            for name in names_of(made(lib.snug_inputs, handle, number))}
            self._outputs = {name: self._type(lib.snug_output_type, handle, name)
                             for name in names_of(made(lib.snug_outputs, handle, number))}
            batch = ctypes.c_int64()
            check(lib.snug_batch(handle, number, ctypes.byref(batch)))
        self._batch = batch.value
        self._bound = {name for name in bound if name in self._inputs or name in self._outputs}
        self._bindings: Dict[str, Given] = {}
        self._fed: Set[str] = set()
        self._seconds = SHORT_SECONDS  # that the last step took; the first may take long

    def _type(self, function: Any, handle: ctypes.c_void_p, name: str) -> TensorType:
        tensor = CTensor()
        check(function(handle, self._number, name.encode(), ctypes.byref(tensor)))
        return TensorType(tensor.dims(), DTYPES[tensor.dtype])

    @property
    def inputs(self) -> Dict[str, TensorType]:
        """The inputs by name, with shape (the batch first) and dtype."""
        return dict(self._inputs)

    @property
    def outputs(self) -> Dict[str, TensorType]:
        """The outputs by name, with shape and dtype."""
        return dict(self._outputs)

    @property
    def batch(self) -> int:
        """Samples in a step."""
        return self._batch

    @property
    def memory(self) -> Memory:
        """What the program takes, to the byte; the same as `snug.plan` says before."""
        memory = CMemory()
        with self._state.use() as handle:
            check(lib.snug_session_memory(handle, self._number, ctypes.byref(memory)))
        return Memory._of(memory)

    # ---- a step ----

    def step(self, feeds: Optional[Mapping[str, Any]] = None, *, copy: bool = True, **more: Any) -> Dict[str, Any]:
        """Feeds arrays, runs one step, and returns the outputs.

        `feeds` has an array for each input: NumPy's, PyTorch's, anything that knows DLPack or Python's buffers, or
        lists of numbers. Shapes must agree. They are copied to where the step reads them (and converted, where no
        fraction is lost); those of `bound` inputs are used where they are. Names may be given as keywords too.

        The outputs are copies. With `copy=False` they are the session's own memory, and the next step writes over them.
        Outputs that are `bound` are the arrays given for them.

        >>> session.step({"image": images, "label": labels})["loss"].item()

        The interpreter's lock is released meanwhile. Ctrl-C ends the step, which then has changed nothing or is
        complete, and raises KeyboardInterrupt.
        """
        feeds = {**(feeds or {}), **more}
        with self._state.use() as handle:
            self._feed(handle, feeds)
            self._run(handle)
            return {name: self._result(handle, name, copy) for name in self._outputs}

    def _feed(self, handle: ctypes.c_void_p, feeds: Mapping[str, Any]) -> None:
        # All are looked at before the first is fed, so that a mistake changes nothing.
        ready = {name: self._checked(name, value) for name, value in feeds.items()}
        missing = [name for name in self._inputs
                   if name not in ready and name not in self._fed and name not in self._bindings]
        missing += [name for name in self._outputs if name in self._bound and name not in ready
                    and name not in self._bindings]
        if missing:
            expected = ", ".join(f'"{name}"'
                                 for name in [*self._inputs, *(n for n in self._outputs if n in self._bound)])
            raise Error(f"expected arrays for {expected}; found none for " + ", ".join(f'"{name}"' for name in missing))
        for name, numbers in ready.items():
            if name in self._bound:
                self._bind(handle, name, numbers)
            else:
                check(lib.snug_feed(handle, self._number, encoded("name", name), numbers.address, numbers.size,
                                    numbers.number))
                self._fed.add(name)

    def _checked(self, name: str, value: Any) -> Given:
        is_output = name not in self._inputs and name in self._bound
        kind = self._outputs[name] if is_output else self._inputs.get(name)
        if kind is None:
            raise Error(f'no input "{name}"; there are: {", ".join(self._inputs)}', "NOT_FOUND")
        numbers = given(f'{"output" if is_output else "input"} "{name}"', value)
        numbers.expect_shape(kind.shape)
        if name in self._bound:
            numbers.expect_in_place(DTYPES.index(kind.dtype))
            if is_output and not numbers.writable:
                raise Error(f'output "{name}": expected an array to write to, found one that is only to be read')
        else:
            numbers.expect_for(DTYPES.index(kind.dtype))
        return numbers

    def _bind(self, handle: ctypes.c_void_p, name: str, numbers: Given) -> None:
        check(lib.snug_bind(handle, self._number, encoded("name", name), numbers.address, numbers.size, numbers.number,
                            int(name not in self._inputs)))
        self._bindings[name] = numbers  # keeps the memory, as long as steps use it

    def bind(self, name: str, array: Any) -> None:
        """Lets steps use this memory for a `bound` input or output, from now on, without a copy.

        The array has the value's own dtype and begins at a multiple of 64 bytes (`snug.empty`). The session keeps it
        alive. `step` does the same with what it is given.
        """
        if name not in self._bound:
            raise Error(f'"{name}" is not bound: name it in Session(..., bound=["{name}"])')
        with self._state.use() as handle:
            self._bind(handle, name, self._checked(name, array))

    def _run(self, handle: ctypes.c_void_p) -> None:
        begin = time.monotonic()
        number = self._number
        fed, self._fed = self._fed, set()  # a step that fails takes what it was fed with it
        try:
            if on_main_thread() and self._seconds >= SHORT_SECONDS:
                state = self._state
                state.helper.run(lambda: state.step(number), lambda stop: lib.snug_stop(handle, int(stop)))
            else:
                self._state.step(number)
        finally:
            self._seconds = time.monotonic() - begin
        if self._keep_inputs:
            self._fed = fed

    # ---- numbers in place ----

    def _view(self, function: Any, handle: ctypes.c_void_p, *where: Any) -> Tensor:
        tensor = CTensor()
        check(function(handle, *where, ctypes.byref(tensor)))
        return Tensor(made(lib.snug_array_of, handle, ctypes.byref(tensor)), is_view=True)

    def _result(self, handle: ctypes.c_void_p, name: str, copy: bool) -> Any:
        if name in self._bound and name in self._bindings:
            return self._bindings[name].value  # the caller's own
        tensor = self._view(lib.snug_output, handle, self._number, encoded("name", name))
        return tensor.copy() if copy else tensor

    def input(self, name: str) -> Tensor:
        """The memory that a step reads an input from, to be filled before it; this counts as feeding it."""
        with self._state.use() as handle:
            tensor: Tensor = self._view(lib.snug_input, handle, self._number, encoded("name", name))
            self._fed.add(name)
            return tensor

    def output(self, name: str, *, copy: bool = False) -> Any:
        """An output of the last step, in the session's own memory: the next step writes over it. Where it is bound, the
        caller's own array."""
        with self._state.use() as handle:
            return self._result(handle, name, copy)

    # ---- many samples ----

    def _rows(self, data: Mapping[str, Any], what: str = "data") -> Tuple[Dict[str, Given], int]:
        """Arrays of many samples, and how many."""
        missing = [name for name in self._inputs if name not in data]
        unknown = [name for name in data if name not in self._inputs]
        if missing or unknown:
            raise Error(f"{what}: expected arrays for {', '.join(self._inputs)}; "
                        f"found {', '.join(map(str, data)) or 'none'}")
        if self._bound:
            raise Error(f"{what}: expected a session without bound values, found {', '.join(sorted(self._bound))} bound")
        arrays: Dict[str, Given] = {}
        count = None
        for name, value in data.items():
            kind, numbers = self._inputs[name], given(f'{what} "{name}"', value)
            if len(numbers.shape) != len(kind.shape) or numbers.shape[1:] != kind.shape[1:]:
                raise ShapeError(f'{what} "{name}": expected shape (samples, {", ".join(map(str, kind.shape[1:]))}), '
                                 f"found {numbers.shape}")
            numbers.expect_for(DTYPES.index(kind.dtype))
            if count is not None and numbers.shape[0] != count:
                raise ShapeError(f'{what} "{name}": expected {count} samples, as the others have, '
                                 f"found {numbers.shape[0]}")
            count = numbers.shape[0]
            arrays[name] = numbers
        return arrays, count or 0

    def _step_on(self, handle: ctypes.c_void_p, arrays: Mapping[str, Given], rows: Sequence[int]) -> None:
        picked = (ctypes.c_int64 * len(rows))(*rows)
        for name, numbers in arrays.items():
            check(lib.snug_feed_rows(handle, self._number, encoded("name", name), numbers.address, numbers.shape[0],
                                     numbers.number, picked))
        self._run(handle)

    def _scalar_outputs(self) -> List[str]:
        return [name for name, kind in self._outputs.items() if all(dim == 1 for dim in kind.shape)]

    def _scalars(self, handle: ctypes.c_void_p, wanted: Iterable[str]) -> Dict[str, float]:
        found = {}
        value = ctypes.c_double()
        for name in wanted:
            check(lib.snug_fetch_scalar(handle, self._number, encoded("name", name), ctypes.byref(value)))
            found[name] = value.value
        return found

    def evaluate(self, data: Mapping[str, Any], *, drop_last: bool = False) -> Dict[str, float]:
        """The mean of each output that is one number, over arrays of many samples; their order is kept.

        The samples are whole batches, or with `drop_last` what is left over is not looked at. Needs a program that
        changes nothing: `session.evaluation`, or a session with `training=False`.
        """
        self._expect_forward("evaluate")
        arrays, count = self._rows(data)
        if count < self._batch or (count % self._batch and not drop_last):
            raise Error(f"data: expected a multiple of the batch of {self._batch} samples, found {count}"
                        + ("" if count < self._batch else "; drop_last=True leaves the rest out"))
        return self._means(arrays, count)

    def _means(self, arrays: Mapping[str, Given], count: int) -> Dict[str, float]:
        sums: Dict[str, float] = {}
        with self._state.use() as handle:
            wanted = self._scalar_outputs()
            for begin in range(0, count - count % self._batch, self._batch):
                self._step_on(handle, arrays, range(begin, begin + self._batch))
                for name, value in self._scalars(handle, wanted).items():
                    sums[name] = sums.get(name, 0.0) + value
        return {name: total / (count // self._batch) for name, total in sums.items()}

    def predict(self, data: Mapping[str, Any], output: str) -> Tensor:
        """An output that has a row for each sample, for arrays of any number of samples."""
        self._expect_forward("predict")
        kind = self._outputs.get(output)
        if kind is None:
            raise Error(f'no output "{output}"; there are: {", ".join(self._outputs)}', "NOT_FOUND")
        if not kind.shape or kind.shape[0] != self._batch:
            raise Error(f'output "{output}": expected a row for each of {self._batch} samples, '
                        f"found shape {kind.shape}")
        arrays, count = self._rows(data)
        result = empty((count, *kind.shape[1:]), kind.dtype)
        with self._state.use() as handle:
            for begin in range(0, count, self._batch):
                rows = [min(row, count - 1) for row in range(begin, begin + self._batch)]  # the last fills it up
                self._step_on(handle, arrays, rows)
                found = self._result(handle, output, copy=False)
                row_bytes = found.nbytes // self._batch
                ctypes.memmove(result.address + begin * row_bytes, found.address,
                               min(self._batch, count - begin) * row_bytes)
        return result

    def _expect_forward(self, what: str) -> None:
        raise NotImplementedError


class Evaluation(Program):
    """The forward-only program of a session."""

    def _expect_forward(self, what: str) -> None:
        pass
