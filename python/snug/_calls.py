"""Calls that take long, and Ctrl-C.

Python runs the handlers of signals on the main thread, between its own instructions: never while that thread is inside
the library. So the main thread leaves a call that may take long to a second thread, and waits in a way that lets
handlers run. What a handler raises, KeyboardInterrupt for one, ends the call. On other threads nothing of this is
needed.
"""

from __future__ import annotations

import queue
import threading
import weakref
from typing import Any, Callable, List, Optional

# A call that took less is made on the main thread itself, the next time: a handler then runs soon enough after it.
SHORT_SECONDS = 0.05
# How often a thread that waits looks whether it still has a session.
LOOK_SECONDS = 1.0


class Outcome:
    """What becomes of a call that another thread makes, once."""

    __slots__ = ("begun", "done", "value", "raised")

    def __init__(self) -> None:
        self.begun = False
        self.done = threading.Event()
        self.value: Any = None
        self.raised: Optional[BaseException] = None

    def run(self, function: Callable[[], Any]) -> None:
        if self.begun:
            return
        self.begun = True
        try:
            self.value = function()
        except BaseException as raised:  # handed to the thread that waits
            self.raised = raised
        self.done.set()

    def result(self) -> Any:
        if self.raised is not None:
            try:
                raise self.raised
            finally:
                self.raised = None  # the traceback refers to this
        return self.value


def on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class Helper:
    """The second thread of a session. It begins with the first call, and ends with `close` or soon after this."""

    def __init__(self) -> None:
        self._calls: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._started = False
        self._last: Optional[Outcome] = None

    @property
    def busy(self) -> bool:
        """Whether the last call is still being made: where handlers raised one after the other, nobody waits for it."""
        return self._last is not None and not self._last.done.is_set()

    def run(self, function: Callable[[], Any], stop: Callable[[bool], None]) -> Any:
        """What the function returns. Where a handler of a signal raises, `stop(True)` is called, the function's end is
        waited for, and then the exception goes on its way."""
        if not self._started:
            threading.Thread(target=_work, args=(self._calls, weakref.ref(self)), name="snug-step", daemon=True).start()
            self._started = True
        stop(False)
        outcome = self._last = Outcome()
        first: Optional[BaseException] = None
        queued = False
        while not outcome.done.is_set():
            # A handler may raise anywhere in here. To queue the call twice does no harm.
            try:
                if first is not None:
                    stop(True)
                if not queued:
                    self._calls.put((outcome, function))
                    queued = True
                outcome.done.wait()
            except BaseException as raised:  # further ones change nothing
                if first is None:
                    first = raised
        if first is not None:
            stop(False)
            raise first
        return outcome.result()

    def close(self) -> None:
        if self._started:
            self._calls.put(None)


def _work(calls: "queue.SimpleQueue[Any]", helper: "weakref.ref[Helper]") -> None:
    while True:
        try:
            call = calls.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            if helper() is None:  # no `__del__` tells: in one, what the handler of a signal raises would be lost
                return
            continue
        if call is None:
            return
        outcome, function = call
        outcome.run(function)
        del call, outcome, function  # so that nothing is kept alive until the next call


def abandonable(function: Callable[[], Any], drop: Callable[[Any], None] = lambda result: None) -> Any:
    """What the function returns, which changes nothing and cannot be stopped: a compile, a plan.

    Where a handler of a signal raises meanwhile, the exception goes on its way at once. The function is left to its end
    in a thread of its own, for which the interpreter waits as it ends, and its result is dropped.
    """
    if not on_main_thread():
        return function()
    outcome = Outcome()
    ended: List[str] = []  # which came first: the "function" or the "wait" for it
    lock = threading.Lock()

    def end(what: str) -> None:
        """The second to end drops what nobody wants any more."""
        with lock:
            ended.append(what)
            if len(ended) == 2 and outcome.raised is None:
                drop(outcome.value)

    def run() -> None:
        outcome.run(function)
        end("function")

    threading.Thread(target=run, name="snug-compile").start()
    try:
        outcome.done.wait()
    except BaseException:
        end("wait")
        raise
    return outcome.result()
