"""What memory a step takes, before there is one: `plan`, `memcost` and `fit`, as the command has them."""

from __future__ import annotations

import ctypes
import dataclasses
import html
import json
from typing import Any, Callable, Iterable, List, Optional, Tuple, Union

from ._errors import Error
from ._library import CMemory, check, lib, made, names_of, text_of
from ._network import Network, bytes_of, compiled, names
from ._picture import plan_svg

_KINDS = ("weights", "gradients", "optimizer", "activations", "workspace")
_MAX_BATCH = 65536


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of a session or plan."""

    state_bytes: int  #: of the Variables
    step_bytes: int  #: of everything else
    lower_bound: int  #: no plan has a smaller sum of the two
    proven: bool  #: the plan reaches the bound, or a search has shown that no plan is better
    strategy: str

    @property
    def total_bytes(self) -> int:
        """What a session takes: Variables and step together."""
        return self.state_bytes + self.step_bytes

    @classmethod
    def _of(cls, memory: CMemory) -> "Memory":
        return cls(memory.state_bytes, memory.step_bytes, memory.lower_bound, bool(memory.proven),
                   memory.strategy.decode())


@dataclasses.dataclass(frozen=True)
class Buffer:
    """A value of a step, or a Variable, and where it lies."""

    name: str
    op: str  #: of the node that makes it; "variable", or "input"
    kind: str  #: weights, gradients, optimizer, activations or workspace
    bytes: int
    offset: int  #: in its arena
    first: int = -1  #: the first and last node of the order that it lives at; -1 for Variables, which always do
    last: int = -1


@dataclasses.dataclass(frozen=True)
class Plan(Memory):
    """Where every byte of a step lies, and when. A notebook shows it as a picture."""

    network: str
    batch: int
    mode: str  #: "training" or "forward"
    seconds: float  #: that planning took
    peak: int  #: the position of the order at which most bytes are live
    at_peak: "dict[str, int]"  #: what is live there, by kind
    variables: List[Buffer]
    buffers: List[Buffer]  #: of the step
    order: List[str]  #: the nodes, as they run

    def svg(self, width: int = 900, height: int = 420) -> str:
        """The step's arena as a picture: address against time, a rectangle for each buffer."""
        return plan_svg(self, width, height)

    def _repr_html_(self) -> str:
        return self.svg() if self.buffers else html.escape(repr(self))

    def __repr__(self) -> str:
        bound = "proven least" if self.proven else f"at least {self.lower_bound:,}"
        return (f"<snug.Plan {self.network!r} batch {self.batch} {self.mode}, {self.strategy}: "
                f"{self.total_bytes:,} bytes, "
                f"{bound}>")


def _report(network: Network, options: "dict[str, Any]") -> "dict[str, Any]":
    report: "dict[str, Any]" = json.loads(
        compiled(network, options, lambda n, o: text_of(made(lib.snug_plan_report, n, o))))
    return report


def plan(network: Network, **options: Any) -> Plan:
    """Plans a step's memory, to the byte, and takes none. Options are those of `Session`.

    >>> snug.plan(network, batch=32).total_bytes
    """
    report = _report(network, options)
    return Plan(state_bytes=report["state"], step_bytes=report["step"], lower_bound=report["lower_bound"],
                proven=report["proven"], strategy=report["strategy"], network=report["network"], batch=report["batch"],
                mode=report["mode"], seconds=report["seconds"], peak=report["peak"]["position"],
                at_peak={kind: report[kind] for kind in _KINDS},
                variables=[Buffer(**row) for row in report.get("variables", [])],
                buffers=[Buffer(**row) for row in report.get("buffers", [])], order=report.get("order", []))


def strategies(slow: bool = False) -> List[str]:
    """What the option `memory` may name: those that are quick or, with `slow`, those that may search for minutes."""
    quick, others = ctypes.c_void_p(), ctypes.c_void_p()
    check(lib.snug_strategies(ctypes.byref(quick), ctypes.byref(others)))
    both = names_of(quick), names_of(others)
    return both[1] if slow else both[0]


class _Table(List[Any]):
    """Rows, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        if not self:
            return "<p>no rows</p>"
        fields = [field.name for field in dataclasses.fields(self[0]) if field.name != "at_peak"]
        head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in fields)
        body = "".join("<tr>" + "".join(f"<td style=\"text-align:right\">{html.escape(_cell(getattr(row, name)))}</td>"
                                        for name in fields) + "</tr>" for row in self)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclasses.dataclass(frozen=True)
class MemcostRow(Memory):
    """What a strategy needs."""

    mode: str  #: "training" or "forward"
    at_peak: "dict[str, int]"  #: what is live at the peak, by kind


def _modes(training: Optional[bool]) -> Tuple[bool, ...]:
    return (False, True) if training is None else (training,)


def memcost(network: Network, strategies: Union[str, Iterable[str], None] = None, training: Optional[bool] = None,
            **options: Any) -> List[MemcostRow]:
    """What a step needs under each strategy, forward only and in training: `snug memcost`.

    `strategies` are all that are quick, unless some are named; `training` picks one of the two modes. Other options are
    those of `Session`.
    """
    rows = _Table()
    for mode in _modes(training):
        for strategy in names(strategies) or _quick():
            report = _report(network, {**options, "memory": strategy, "training": mode})
            rows.append(MemcostRow(state_bytes=report["state"], step_bytes=report["step"],
                                   lower_bound=report["lower_bound"], proven=report["proven"], strategy=strategy,
                                   mode="training" if mode else "forward",
                                   at_peak={kind: report[kind] for kind in _KINDS}))
    return rows


@dataclasses.dataclass(frozen=True)
class FitRow:
    """The largest batch that fits by a strategy; 0 where not even one sample does."""

    strategy: str
    mode: str  #: "training" or "forward"
    batch: int
    total_bytes: int
    proven: bool
    ended_by: str  #: why one sample more is too many: "memory-limit", "max-batch", or "network", whose sizes overflow


def fit(network: Network, memory_limit: Union[int, str], strategies: Union[str, Iterable[str], None] = None,
        training: Optional[bool] = None, max_batch: int = _MAX_BATCH, **options: Any) -> List[FitRow]:
    """The largest batch that fits into memory, by each strategy, forward only and in training: `snug fit`.

    `memory_limit` is in bytes, or a text with a unit ("8GiB"). (Training on data is `Session.fit`.)

    >>> snug.fit(network, "2GiB", strategies="best", training=True)[0].batch
    """
    if "batch" in options:
        raise Error("batch: it is what is looked for")
    limit = bytes_of("memory_limit", memory_limit)
    if limit <= 0 or max_batch < 1:
        raise Error(f"memory_limit and max_batch: expected more than 0, found {limit} and {max_batch}")
    rows = _Table()
    for mode in _modes(training):
        for strategy in names(strategies) or _quick():
            def planned(batch: int) -> Memory:
                memory = CMemory()
                compiled(network, {**options, "memory": strategy, "training": mode, "batch": batch,
                                   "memory_limit": limit},
                         lambda n, o: check(lib.snug_plan(n, o, ctypes.byref(memory))))
                return Memory._of(memory)
            rows.append(_largest(planned, strategy, "training" if mode else "forward", max_batch))
    return rows


def _largest(planned: Callable[[int], Memory], strategy: str, mode: str, max_batch: int) -> FitRow:
    """Doubles the batch, then halves the interval, as the command does (tools/cli/fit.cc)."""
    best, ended_by = FitRow(strategy, mode, 0, 0, False, "max-batch"), "max-batch"
    fits, too_large, batch = 0, max_batch + 1, 1
    while fits + 1 < too_large:
        try:
            memory = planned(batch)
        except Error as refused:
            too_much = refused.code == "RESOURCE_EXHAUSTED"
            if not too_much and (batch == 1 or refused.code != "INVALID_ARGUMENT"):
                raise
            too_large, ended_by = batch, "memory-limit" if too_much else "network"
            batch = fits + (too_large - fits) // 2
            continue
        best, fits = FitRow(strategy, mode, batch, memory.total_bytes, memory.proven, ""), batch
        batch = min(2 * batch, max_batch) if too_large > max_batch else fits + (too_large - fits) // 2
    return dataclasses.replace(best, ended_by=ended_by)


def _quick() -> List[str]:
    return strategies()
