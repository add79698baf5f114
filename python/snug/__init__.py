"""Snug, from Python: train a network, and know what memory it takes before it does.

    import numpy, snug

    network = snug.Network("models/mlp.pbtxt")
    print(snug.plan(network, batch=32).total_bytes)
    with snug.Session(network, batch=32, seed=1) as session:
        session.learning_rate = 0.1
        for images, labels in batches:
            outputs = session.step({"image": images, "label": labels})
        print(outputs["loss"].item(), numpy.asarray(outputs["out"]).shape)
        session.save("checkpoints")

Arrays go in and out as NumPy's, PyTorch's, or anything else that knows DLPack; none of these is needed. docs/python.md
of the sources tells more.
"""

from ._errors import (AlignmentError, BusyError, ClosedError, DeviceError, DTypeError, Error, NotContiguousError,
                      ProcessError, ShapeError)
from ._fit import Epoch
from ._library import lib as _lib
from ._network import Network
from ._plan import Buffer, FitRow, MemcostRow, Memory, Plan, fit, memcost, plan, strategies
from ._program import Program, TensorType
from ._session import Session
from ._tensor import Tensor, empty
from ._variables import Variables

__version__: str = _lib.snug_version().decode()

__all__ = [
    "AlignmentError", "Buffer", "BusyError", "ClosedError", "DTypeError", "DeviceError", "Epoch", "Error", "FitRow",
    "MemcostRow", "Memory", "Network", "NotContiguousError", "Plan", "ProcessError", "Program", "Session", "ShapeError",
    "Tensor", "TensorType", "Variables", "empty", "fit", "memcost", "plan", "strategies",
]
