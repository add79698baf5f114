"""Sessions: a compiled network with its memory and its Variables."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import os
import random
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, MutableMapping, Optional, Sequence, Tuple, \
    Union

from . import _library
from ._calls import SHORT_SECONDS, Helper, on_main_thread
from ._errors import BusyError, ClosedError, DTypeError, Error, ProcessError, ShapeError
from ._given import Given, given
from ._library import CMemory, CTensor, check, encoded, lib, made, names_of, owned, text_of
from ._network import Network, compiled, names
from ._plan import Memory
from ._tensor import DTYPES, Tensor, dtype_number, empty

_TRAINING, _EVALUATION = 0, 1
_LOADS = {"resume": 0, "continue": 1, "weights": 2}
Rate = Union[float, Callable[[int], float], None]


# Not a WeakSet: it has a function of Python's called as an element goes, in which Ctrl-C would be lost.
_states: "List[weakref.ref[_State]]" = []
_ending = False  # whether the interpreter ends


def _end() -> None:
    """Ends the steps of daemon threads, before the library's own objects go. As the interpreter holds such threads
    where they want its lock, they are held here."""
    global _ending
    _ending = True
    for state in [state for state in (reference() for reference in _states) if state is not None]:
        while state.pid == os.getpid() and state.stepping:
            lib.snug_stop(state.handle, 1)
            time.sleep(0.001)


atexit.register(_end)


class _State:
    """The handle of a session, and who may use it. What views look at outlives it."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self.handle: Optional[ctypes.c_void_p] = handle
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.active = False
        self.stepping = False  # whether a thread is within a step
        self.helper = Helper()
        # Other threads than this one did not come along into a fork, and freeing would wait for them.
        self._owner = owned(handle, "snug_session", here_only=True)
        _states[:] = [reference for reference in _states if reference() is not None] + [weakref.ref(self)]

    @contextlib.contextmanager
    def use(self) -> Iterator[ctypes.c_void_p]:
        """The handle, for this thread alone."""
        if self.pid != os.getpid():
            raise ProcessError(f"the session belongs to process {self.pid}, which made it; this one, {os.getpid()}, is "
                               "a fork of it: make a session here, or start the process by \"spawn\"")
        # A handler of a signal may raise right behind any call, so that an acquired lock stays unnoticed. It is one
        # that the same thread may acquire again; what tells whether the session is in use is set within `try`.
        if not self.lock.acquire(blocking=False):
            raise BusyError("the session is in use by another thread: expected one at a time; threads that work side "
                            "by side have a session each")
        mine = False
        try:
            if self.active:
                raise BusyError("the session is in use: expected a call that begins after the last has ended, found "
                                "one within it (by the handler of a signal, or a function that it was given)")
            mine = self.active = True
            if self.handle is None:
                raise ClosedError("the session is closed")
            if self.helper.busy:
                raise BusyError("the session is in use: the step that was interrupted has not ended yet")
            yield self.handle
        finally:
            if mine:
                self.active = False
            self.lock.release()

    def step(self, number: int) -> None:
        """One step of a program, within `use`."""
        self.stepping = True
        try:
            error = lib.snug_step(self.handle, number)
        finally:
            self.stepping = False
        while _ending and not on_main_thread():
            time.sleep(3600)
        check(error)

    def close(self) -> None:
        if self.handle is None:
            return
        with self.use():
            self.handle = None
            self.helper.close()
            self._owner = None


@dataclasses.dataclass(frozen=True)
class TensorType:
    """Shape and type of the elements of an input or output."""

    shape: Tuple[int, ...]
    dtype: str


class Program:
    """One compiled form of a session's network: what is fed, run and fetched."""

    def __init__(self, state: _State, number: int, bound: Sequence[str], keep_inputs: bool) -> None:
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
        self._fed: set = set()
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

    def step(self, feeds: Optional[Mapping[str, Any]] = None, *, copy: bool = True, **more: Any) -> Dict[str, Tensor]:
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
            tensor = self._view(lib.snug_input, handle, self._number, encoded("name", name))
            self._fed.add(name)
            return tensor

    def output(self, name: str, *, copy: bool = False) -> Tensor:
        """An output of the last step, in the session's own memory: the next step writes over it."""
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


class _Evaluation(Program):
    """The forward-only program of a session."""

    def _expect_forward(self, what: str) -> None:
        pass


class Variables(MutableMapping[str, Tensor]):
    """Variables by name: views of the session's own memory. Assigning one copies numbers into it."""

    def __init__(self, state: _State, listing: Any) -> None:
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


_threads_of: Optional[int] = None  # the process in which sessions have had several threads for an op


def _expect_threads_of_this_process(threads: Optional[int]) -> None:
    global _threads_of
    if threads in (None, 1):
        return
    if _threads_of not in (None, os.getpid()):
        raise ProcessError(f"threads: expected 1 in a fork of process {_threads_of}, whose sessions have more: "
                           "OpenMP's threads did not come along; start the process by \"spawn\"")
    _threads_of = os.getpid()


@dataclasses.dataclass(frozen=True)
class Epoch:
    """What an epoch of `Session.fit` came to."""

    number: int  #: from 1 on
    steps: int  #: that the session has trained by now
    means: Dict[str, float]  #: of each output that is one number, over the epoch's steps
    validation: Dict[str, float]  #: the same of the data held back, where there are any
    seconds: float


class Session(Program):
    """A network with its memory and its Variables, ready to step.

    >>> with snug.Session(snug.Network("models/mlp.pbtxt"), batch=32, seed=1) as session:
    ...     session.learning_rate = 0.1
    ...     loss = session.step({"image": images, "label": labels})["loss"]

    A session is used by one thread at a time; sessions share nothing, so threads may have one each. It belongs to the
    process that made it.
    """

    def __init__(self, network: Network, *, batch: Optional[int] = None, device: Optional[str] = None,
                 training: bool = True, evaluation_batch: Optional[int] = None, precision: Optional[str] = None,
                 stochastic_rounding: Optional[bool] = None, threads: Optional[int] = None,
                 streams: Optional[int] = None, engine: Optional[str] = None, memory: Optional[str] = None,
                 memory_limit: Union[int, str, None] = None, seed: Optional[int] = None, keep_inputs: bool = False,
                 fetch: Union[str, Iterable[str], None]
                 = None, bound: Union[str, Iterable[str], None] = None, **memory_options: Any) -> None:
        """Compiles the network and takes its memory.

        batch: samples in a step; None: as the model file says, or 1
        device: "cpu", "cuda", "cuda:N"
        training: False compiles the forward pass alone
        evaluation_batch: adds `evaluation`, a forward-only program of this batch on the same Variables
        precision: "float32", "bfloat16" or "float64"
        threads, streams: of each op (0: one for every processor), and how many ops run side by side
        memory, memory_limit: how it is planned (`snug.strategies`), and bytes that it keeps to, or "8GiB"
        keep_inputs: what is fed stays for the next step
        fetch: values that become outputs, beside the network's own
        bound: inputs and outputs that lie in the caller's arrays; steps use those without a copy

        Further options are those of `training { memory { } }` in model files.
        """
        _expect_threads_of_this_process(threads)
        bound = names(bound)
        options = dict(batch=batch, device=device, training=training, evaluation_batch=evaluation_batch,
                       precision=precision, stochastic_rounding=stochastic_rounding, threads=threads, streams=streams,
                       engine=engine, memory=memory, memory_limit=memory_limit, seed=seed, keep_inputs=keep_inputs,
                       fetch=names(fetch), bound=bound, **memory_options)
        self._trains = bool(training)
        state = _State(compiled(network, options, lambda n, o: made(lib.snug_session_create, n, o),
                                lib.snug_session_free))
        super().__init__(state, _TRAINING, bound, keep_inputs)
        self.evaluation: Optional[Program] = None  #: the forward-only program, where `evaluation_batch` was given
        if evaluation_batch:
            self.evaluation = _Evaluation(state, _EVALUATION, bound, keep_inputs)

    def _expect_forward(self, what: str) -> None:
        if self._trains:
            raise Error(f"{what}: a step of this session trains: use session.evaluation.{what}, of a session with an "
                        "evaluation_batch, or one with training=False", "FAILED_PRECONDITION")

    # ---- its life ----

    def close(self) -> None:
        """Gives the memory back, but for what views still look at. Whatever comes after is a `snug.ClosedError`."""
        self._state.close()
        self._bindings.clear()
        if self.evaluation is not None:
            self.evaluation._bindings.clear()

    @property
    def closed(self) -> bool:
        return self._state.handle is None

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<snug.Session, closed>"
        return (f"<snug.Session batch {self._batch}, inputs {', '.join(self._inputs)}, "
                f"outputs {', '.join(self._outputs)}>")

    # ---- state ----

    @property
    def parameters(self) -> Variables:
        """What is trained, by name ("fc1.weight")."""
        return Variables(self._state, lib.snug_parameters)

    @property
    def variables(self) -> Variables:
        """All that lasts from step to step: parameters, statistics, and what the optimizer keeps."""
        return Variables(self._state, lib.snug_variables)

    @property
    def steps(self) -> int:
        """How many steps were trained; a checkpoint has it."""
        with self._state.use() as handle:
            return lib.snug_steps(handle)

    @property
    def learning_rate(self) -> float:
        rate = ctypes.c_double()
        with self._state.use() as handle:
            check(lib.snug_learning_rate(handle, ctypes.byref(rate)))
        return rate.value

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        with self._state.use() as handle:
            check(lib.snug_set_learning_rate(handle, float(rate)))

    def save(self, directory: Union[str, "os.PathLike[str]"], keep: int = 3) -> str:
        """Writes a checkpoint step-N.safetensors into the directory, and returns its path.

        It is complete and on the disk, or the older ones are as they were; the newest `keep` stay. `snug train
        --resume` goes on from a directory OUTPUT/checkpoints.
        """
        with self._state.use() as handle:
            return text_of(made(lib.snug_save, handle, encoded("directory", directory), int(keep)))

    def load(self, path: Union[str, "os.PathLike[str]"], what: str = "resume") -> None:
        """Takes a checkpoint, or the newest complete one of a directory, such as `snug train` leaves. All or nothing.

        what: "resume" takes everything, bit for bit, and refuses where the session differs; "continue" allows what only
        changes the rounding (threads, tuning); "weights" takes parameters and statistics, also of other programs'
        files.
        """
        if what not in _LOADS:
            raise Error(f"what: expected one of {', '.join(_LOADS)}, found {what!r}")
        with self._state.use() as handle:
            check(lib.snug_restore(handle, encoded("path", path), _LOADS[what]))

    # ---- training on data ----

    def fit(self, data: Mapping[str, Any], epochs: int = 1, *, learning_rate: Rate = None, shuffle: bool = True,
            seed: int = 0, validation: Optional[Mapping[str, Any]] = None,
            on_step: Optional[Callable[[int, Dict[str, float]], Any]] = None,
            on_epoch: Optional[Callable[[Epoch], Any]] = None) -> List[Epoch]:
        """Trains on arrays of many samples, one for each input, and returns what became of each epoch.

        An epoch takes each sample once, in an order that `seed` and its number fix; a last batch that is not full is
        left out. `learning_rate` is a number, or a function of the number of steps trained. `validation` are arrays on
        which `evaluation` is run after each epoch. `on_step(steps, outputs)` sees the outputs that are one number;
        where it or `on_epoch` returns False, the training ends there. Ctrl-C ends it too, as KeyboardInterrupt, and
        leaves the session ready to go on.
        """
        if not self._trains:
            raise Error("fit: a session with training=False does not train", "FAILED_PRECONDITION")
        if validation is not None and self.evaluation is None:
            raise Error("validation: expected a session with an evaluation_batch", "FAILED_PRECONDITION")
        arrays, count = self._rows(data)
        if count < self._batch:
            raise Error(f"data: expected at least a batch of {self._batch} samples, found {count}")
        judged = None
        if validation is not None:
            judged, judged_count = self.evaluation._rows(validation, "validation")
            if judged_count == 0 or judged_count % self.evaluation.batch:
                raise Error(f"validation: expected a multiple of the evaluation_batch of {self.evaluation.batch} "
                            f"samples, found {judged_count}")
        history: List[Epoch] = []
        for number in range(1, epochs + 1):
            order = list(range(count))
            if shuffle:
                random.Random(f"{seed} {number}").shuffle(order)
            begun, going = time.monotonic(), True
            sums: Dict[str, float] = {}
            done = 0
            for begin in range(0, count - count % self._batch, self._batch):
                outputs = self._train_on(arrays, order[begin:begin + self._batch], learning_rate)
                done += 1
                for name, value in outputs.items():
                    sums[name] = sums.get(name, 0.0) + value
                if on_step is not None and on_step(self.steps, outputs) is False:
                    going = False
                    break
            evaluated = self.evaluation._means(judged, judged_count) if judged is not None else {}
            epoch = Epoch(number, self.steps, {name: total / done for name, total in sums.items()}, evaluated,
                          time.monotonic() - begun)
            history.append(epoch)
            if (on_epoch is not None and on_epoch(epoch) is False) or not going:
                break
        return history

    def _train_on(self, arrays: Mapping[str, Given], rows: Sequence[int], rate: Rate) -> Dict[str, float]:
        # Between steps nobody holds the session, so that callbacks may save or look at parameters.
        if rate is not None:
            self.learning_rate = rate(self.steps) if callable(rate) else rate
        with self._state.use() as handle:
            self._step_on(handle, arrays, rows)
            return self._scalars(handle, self._scalar_outputs())

    def fetch(self, name: str, dtype: Any = None) -> Tensor:
        """A copy of an output of the last step, converted to `dtype`."""
        kind = self._outputs.get(name)
        if kind is None:
            raise Error(f'no output "{name}"; there are: {", ".join(self._outputs)}', "NOT_FOUND")
        wanted = kind.dtype if dtype is None else DTYPES[dtype_number(dtype)]
        if wanted == "bfloat16":
            if kind.dtype != "bfloat16":
                raise DTypeError(f'output "{name}": expected a type that C has, found bfloat16')
            return self.output(name, copy=True)
        result = empty(kind.shape, wanted)
        with self._state.use() as handle:
            check(lib.snug_fetch(handle, self._number, encoded("name", name), result.address, result.size,
                                 DTYPES.index(wanted)))
        return result
