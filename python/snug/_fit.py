"""Training on arrays of many samples, epoch by epoch."""

from __future__ import annotations

import dataclasses
import random
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from ._errors import Error
from ._given import Given

if TYPE_CHECKING:
    from ._session import Session

Rate = Union[float, Callable[[int], float], None]


@dataclasses.dataclass(frozen=True)
class Epoch:
    """What an epoch of `Session.fit` came to."""

    number: int  #: from 1 on
    steps: int  #: that the session has trained by now
    means: Dict[str, float]  #: of each output that is one number, over the epoch's steps
    validation: Dict[str, float]  #: the same of the data held back, where there are any
    seconds: float


def fit(session: Session, data: Mapping[str, Any], epochs: int, learning_rate: Rate, shuffle: bool, seed: int,
        validation: Optional[Mapping[str, Any]], on_step: Optional[Callable[[int, Dict[str, float]], Any]],
        on_epoch: Optional[Callable[[Epoch], Any]]) -> List[Epoch]:
    """What `Session.fit` says."""
    if not session._trains:
        raise Error("fit: a session with training=False does not train", "FAILED_PRECONDITION")
    evaluation = session.evaluation
    if validation is not None and evaluation is None:
        raise Error("validation: expected a session with an evaluation_batch", "FAILED_PRECONDITION")
    arrays, count = session._rows(data)
    if count < session._batch:
        raise Error(f"data: expected at least a batch of {session._batch} samples, found {count}")
    judged = None
    if validation is not None and evaluation is not None:
        judged, judged_count = evaluation._rows(validation, "validation")
        if judged_count == 0 or judged_count % evaluation.batch:
            raise Error(f"validation: expected a multiple of the evaluation_batch of {evaluation.batch} "
                        f"samples, found {judged_count}")
    history: List[Epoch] = []
    for number in range(1, epochs + 1):
        order = list(range(count))
        if shuffle:
            random.Random(f"{seed} {number}").shuffle(order)
        begun, going = time.monotonic(), True
        sums: Dict[str, float] = {}
        done = 0
        for begin in range(0, count - count % session._batch, session._batch):
            outputs = _train_on(session, arrays, order[begin:begin + session._batch], learning_rate)
            done += 1
            for name, value in outputs.items():
                sums[name] = sums.get(name, 0.0) + value
            if on_step is not None and on_step(session.steps, outputs) is False:
                going = False
                break
        evaluated = evaluation._means(judged, judged_count) if evaluation is not None and judged is not None else {}
        epoch = Epoch(number, session.steps, {name: total / done for name, total in sums.items()}, evaluated,
                      time.monotonic() - begun)
        history.append(epoch)
        if (on_epoch is not None and on_epoch(epoch) is False) or not going:
            break
    return history


def _train_on(session: Session, arrays: Mapping[str, Given], rows: Sequence[int], rate: Rate) -> Dict[str, float]:
    # Between steps nobody holds the session, so that callbacks may save or look at parameters.
    if rate is not None:
        session.learning_rate = rate(session.steps) if callable(rate) else rate
    with session._state.use() as handle:
        session._step_on(handle, arrays, rows)
        return session._scalars(handle, session._scalar_outputs())
