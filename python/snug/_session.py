"""Sessions: a compiled network with its memory and its Variables."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from ._errors import DTypeError, Error, ProcessError
from ._fit import Epoch, Order, Rate, run_epochs
from ._given import Given
from ._library import check, encoded, lib, made, text_of
from ._network import Network, compiled, names
from ._program import Evaluation, Program
from ._state import State
from ._tensor import DTYPES, Tensor, dtype_number, empty
from ._variables import Variables

_TRAINING, _EVALUATION = 0, 1
_LOADS = {"resume": 0, "continue": 1, "weights": 2}

_threads_of: Optional[int] = None  # the process in which sessions have had several threads for an op


def _expect_threads_of_this_process(threads: Optional[int]) -> None:
    global _threads_of
    if threads in (None, 1):
        return
    if _threads_of not in (None, os.getpid()):
        raise ProcessError(f"threads: expected 1 in a fork of process {_threads_of}, whose sessions have more: "
                           "OpenMP's threads did not come along; start the process by \"spawn\"")
    _threads_of = os.getpid()


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
                 watchdog: Optional[float] = None, fetch: Union[str, Iterable[str], None]
                 = None, bound: Union[str, Iterable[str], None] = None, **memory_options: Any) -> None:
        """Compiles the network and takes its memory.

        batch: samples in a step; None: those of `training { }` in the model file, the network's own, or 1
        device: "cpu", "cuda", "cuda:N"
        training: False compiles the forward pass alone
        evaluation_batch: adds `evaluation`, a forward-only program of this batch on the same Variables
        precision: "float32", "bfloat16" or "float64"
        threads, streams: of each op (0: one for every processor), and how many ops run side by side
        memory, memory_limit: how it is planned (`snug.strategies`), and bytes that it keeps to, or "8GiB"
        keep_inputs: what is fed stays for the next step
        watchdog: seconds without a finished op after which a report on standard error says what each stream does
        fetch: values that become outputs, beside the network's own
        bound: inputs and outputs that lie in the caller's arrays; steps use those without a copy

        Further options are those of `training { memory { } }` in model files.
        """
        _expect_threads_of_this_process(threads)
        bound_names = names(bound)
        options = dict(batch=batch, device=device, training=training, evaluation_batch=evaluation_batch,
                       precision=precision, stochastic_rounding=stochastic_rounding, threads=threads, streams=streams,
                       engine=engine, memory=memory, memory_limit=memory_limit, seed=seed, keep_inputs=keep_inputs,
                       watchdog=watchdog, fetch=names(fetch), bound=bound_names, **memory_options)
        self._trains = bool(training)
        state = State(compiled(network, options, lambda n, o: made(lib.snug_session_create, n, o),
                                lib.snug_session_free))
        super().__init__(state, _TRAINING, bound_names, keep_inputs)
        self.evaluation: Optional[Program] = None  #: the forward-only program, where `evaluation_batch` was given
        if evaluation_batch:
            self.evaluation = Evaluation(state, _EVALUATION, bound_names, keep_inputs)

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
        """Whether `close` was called, or the `with` block ended."""
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
            return int(lib.snug_steps(handle))

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step, which may be set to another number, before every step."""
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
        arrays, count = self._rows(data)
        if count < self._batch:
            raise Error(f"data: expected at least a batch of {self._batch} samples, found {count}")

        def train_on(rows: Sequence[int]) -> Dict[str, float]:
            return self._train_on(arrays, rows, learning_rate)

        return run_epochs(epochs, Order(count, self._batch, seed if shuffle else None), train_on, lambda: self.steps,
                          self._evaluate_on(validation), on_step, on_epoch)

    def _evaluate_on(self, validation: Optional[Mapping[str, Any]]) -> Callable[[], Dict[str, float]]:
        if validation is None:
            return dict
        evaluation = self.evaluation
        if evaluation is None:
            raise Error("validation: expected a session with an evaluation_batch", "FAILED_PRECONDITION")
        arrays, count = evaluation._rows(validation, "validation")
        if count == 0 or count % evaluation.batch:
            raise Error(f"validation: expected a multiple of the evaluation_batch of {evaluation.batch} "
                        f"samples, found {count}")
        return lambda: evaluation._means(arrays, count)

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
            with self._state.use() as handle:
                copied: Tensor = self._view(lib.snug_output, handle, self._number, encoded("name", name)).copy()
                return copied
        result = empty(kind.shape, wanted)
        with self._state.use() as handle:
            check(lib.snug_fetch(handle, self._number, encoded("name", name), result.address, result.size,
                                 DTYPES.index(wanted)))
        return result
