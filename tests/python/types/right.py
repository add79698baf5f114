"""A program whose types are right, as its author sees them: mypy --strict finds nothing in it. It is never run."""

from typing import Any, Dict, List, Optional, Tuple

import snug
from typing_extensions import assert_type

network = snug.Network.from_text("").with_classes(3)
assert_type(network, snug.Network)
assert_type(network.text, str)

plan = snug.plan(network, batch=32, memory="best")
assert_type(plan.total_bytes, int)
assert_type(plan.svg(), str)
assert_type(snug.memcost(network, batch=32), List[snug.MemcostRow])
assert_type(snug.fit(network, "8GiB"), List[snug.FitRow])

with snug.Session(network, batch=32, evaluation_batch=16, memory_limit="8GiB", bound=["x"]) as session:
    assert_type(session, snug.Session)
    assert_type(session.step({"x": [1.0]}), Dict[str, Any])
    session.learning_rate = 0.1
    assert_type(session.parameters["fc1.weight"], snug.Tensor)
    for name, tensor in session.variables.items():
        assert_type(name, str)
        assert_type(tensor.shape, Tuple[int, ...])
    assert_type(session.evaluation, Optional[snug.Program])
    epochs = session.fit({"x": [[1.0]]}, epochs=2, learning_rate=lambda step: 0.1 / (1 + step),
                         on_epoch=lambda epoch: epoch.number < 2)
    assert_type(epochs, List[snug.Epoch])
    assert_type(epochs[0].means, Dict[str, float])
    assert_type(session.save("checkpoints"), str)
    assert_type(session.steps, int)

try:
    snug.Network("no.pbtxt")
except snug.ShapeError as error:
    assert_type(error.code, str)
assert_type(snug.empty((2, 3)), snug.Tensor)
assert_type(snug.__version__, str)
