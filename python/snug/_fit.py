"""The loop of a training on many samples: epochs, what each shuffles and comes to, and when it ends."""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

Rate = Union[float, Callable[[int], float], None]


@dataclasses.dataclass(frozen=True)
class Epoch:
    """What an epoch of `Session.fit` came to."""

    number: int  #: from 1 on
    steps: int  #: that the session has trained by now
    means: Dict[str, float]  #: of each output that is one number, over the epoch's steps
    validation: Dict[str, float]  #: the same of the data held back, where there are any
    seconds: float


@dataclasses.dataclass(frozen=True)
class Order:
    """Which samples an epoch's steps take."""

    count: int  # of all samples
    batch: int
    seed: Optional[int]  # of the shuffling; None: as they lie

    def batches(self, epoch: int) -> List[List[int]]:
        """The rows of each step; those that fill no batch are left out."""
        rows = list(range(self.count))
        if self.seed is not None:
            random.Random(f"{self.seed} {epoch}").shuffle(rows)
        return [rows[begin:begin + self.batch] for begin in range(0, self.count - self.count % self.batch, self.batch)]


def run_epochs(epochs: int, order: Order, train_on: Callable[[Sequence[int]], Dict[str, float]],
               steps: Callable[[], int], evaluate: Callable[[], Dict[str, float]],
               on_step: Optional[Callable[[int, Dict[str, float]], Any]],
               on_epoch: Optional[Callable[[Epoch], Any]]) -> List[Epoch]:
    """Calls `train_on` for the rows of each step; `steps` says how many were trained by then."""
    history: List[Epoch] = []
    for number in range(1, epochs + 1):
        begun, going = time.monotonic(), True
        sums: Dict[str, float] = {}
        done = 0
        for rows in order.batches(number):
            outputs = train_on(rows)
            done += 1
            for name, value in outputs.items():
                sums[name] = sums.get(name, 0.0) + value
            if on_step is not None and on_step(steps(), outputs) is False:
                going = False
                break
        evaluated = evaluate()
        epoch = Epoch(number, steps(), {name: total / done for name, total in sums.items()}, evaluated,
                      time.monotonic() - begun)
        history.append(epoch)
        if (on_epoch is not None and on_epoch(epoch) is False) or not going:
            break
    return history
