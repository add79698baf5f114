"""Networks, and the options with which they are compiled."""

from __future__ import annotations

import ctypes
import difflib
import operator
import os
import re
from typing import Any, Iterable, Mapping, Union

from . import _library
from ._calls import abandonable
from ._errors import Error
from ._library import encoded, lib, made, owned, text_of

_OPTIONS = ("batch", "device", "training", "evaluation_batch", "precision", "stochastic_rounding", "threads", "streams",
            "engine", "memory", "memory_limit", "seed", "keep_inputs", "fetch", "bound")
_UNITS = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Network:
    """What is computed: a model file.

    >>> network = snug.Network("models/mlp.pbtxt")
    >>> network = snug.Network.from_text('''name: "line" input { name: "x" shape { dim: 1 } } ...''')

    Mistakes in it are a `snug.Error`, up to twenty at once, each as `file:line:column: what was expected and found`.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Reads a model file, text (*.pbtxt) or binary (*.pb)."""
        self._own(made(lib.snug_network_from_file, encoded("path", path)))

    @classmethod
    def from_text(cls, text: str, name: str = "text") -> "Network":
        """Reads the text of a model file; `name` stands for the file in messages."""
        network = cls.__new__(cls)
        network._own(made(lib.snug_network_from_text, encoded("text", text), encoded("name", name)))
        return network

    def _own(self, handle: ctypes.c_void_p) -> None:
        self._handle, self._owner = handle, owned(handle, "snug_network")

    def with_classes(self, classes: int) -> "Network":
        """The same network with so many outputs of the layers that score classes, as the data have so many.

        >>> network = snug.Network("models/resnet18.pbtxt").with_classes(5)

        They are found as `snug train --classes-of-data` finds them: by what losses and metrics compare with labels.
        """
        count = operator.index(classes)
        if not -2**63 <= count < 2**63:
            raise Error(f"classes: expected an integer of 64 bits, found {count}")
        network = Network.__new__(Network)
        network._own(made(lib.snug_network_with_classes, self._handle, count))
        return network

    @property
    def text(self) -> str:
        """The network as the text of a model file, without blocks: they are expanded."""
        return text_of(made(lib.snug_network_to_text, self._handle))

    @property
    def name(self) -> str:
        """The name that the model file gives it."""
        found = re.search(r'^name: "([^"]*)"', self.text, re.MULTILINE)
        return found[1] if found else ""

    def __repr__(self) -> str:
        return f"<snug.Network {self.name!r}>"


def bytes_of(what: str, size: Union[int, str]) -> int:
    """A size in bytes, which may be a text with a unit: "500MB", "8GiB"."""
    if isinstance(size, str):
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(kB|[MG]B|[KMG]iB|)", size.strip())
        if not found:
            raise Error(f"{what}: expected bytes, or a size with a unit, such as \"500MB\" or \"8GiB\", found {size!r}")
        return int(float(found[1]) * _UNITS[found[2]]) if found[2] else int(found[1])
    return int(size)


class Options:
    """The options of a session or plan, by the names that `snug/c.h` takes. Freed at the end of a `with`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._handle = made(lib.snug_options_new)
        try:
            for name, value in options.items():
                if value is not None:
                    self._set(name, value)
        except BaseException:
            lib.snug_options_free(self._handle)
            raise

    def _set(self, name: str, value: Any) -> None:
        key = encoded("option", name)
        if name == "memory_limit":
            value = bytes_of("option \"memory_limit\"", value)
        if name in ("fetch", "bound"):
            for one in [value] if isinstance(value, str) else value:
                _library.check(lib.snug_options_set_text(self._handle, key, encoded(f"option {name!r}", one)))
        elif isinstance(value, (bool, int)):
            if not -2**63 <= value < 2**63:
                raise Error(f"option \"{name}\": expected an integer of 64 bits, found {value}")
            _library.check(lib.snug_options_set_integer(self._handle, key, int(value)))
        elif isinstance(value, float):
            _library.check(lib.snug_options_set_number(self._handle, key, value))
        elif isinstance(value, str):
            _library.check(lib.snug_options_set_text(self._handle, key, encoded(f"option {name!r}", value)))
        elif hasattr(value, "__index__"):  # numpy.int64 and its like
            self._set(name, value.__index__())
        else:
            raise Error(f"option \"{name}\": expected a number or a text, found {type(value).__name__}")

    def __enter__(self) -> ctypes.c_void_p:
        return self._handle

    def __exit__(self, *exception: Any) -> None:
        lib.snug_options_free(self._handle)


def compiled(network: Network, options: Mapping[str, Any], call: Any, drop: Any = lambda result: None) -> Any:
    """What `call(network, options)` makes of handles; it may take long, and Ctrl-C need not wait for it."""
    if not isinstance(network, Network):
        raise TypeError(f"network: expected a snug.Network, found {type(network).__name__}")

    def run() -> Any:
        try:
            with Options(options) as handle:
                return call(network._handle, handle)  # `network` lives as long as this does
        except Error as refused:
            # What no option is called, the library takes for one of memory's.
            unknown = re.match(r'option "(\w+)": unknown field', str(refused))
            near = difflib.get_close_matches(unknown[1], _OPTIONS, 1) if unknown else []
            if not near or "did you mean" in str(refused):
                raise
            raise Error(f'{refused}; did you mean the option "{near[0]}"?', refused.code) from None

    return abandonable(run, drop)


def names(value: Union[str, Iterable[str], None]) -> Any:
    return () if value is None else [value] if isinstance(value, str) else list(value)
