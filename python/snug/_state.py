"""The handle of a session, and who may use it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import threading
import time
import weakref
from typing import Iterator, List, Optional

from ._calls import Helper, on_main_thread
from ._errors import BusyError, ClosedError, ProcessError
from ._library import check, lib, owned

# Not a WeakSet: it has a function of Python's called as an element goes, in which Ctrl-C would be lost.
_states: "List[weakref.ref[State]]" = []
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


class State:
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
