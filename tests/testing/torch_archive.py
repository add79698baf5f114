"""Writes weights as `torch.save(model.state_dict(), path)` does, without PyTorch: a zip file whose data.pkl names tensors and
whose other members are their bytes. And which tensors torchvision's resnet18 has."""

import array
import collections
import io
import pickle
import random
import sys
import types
import zipfile


def stand_in(module, name, value):
    """`value`, pickled as `module.name`."""
    value.__module__, value.__qualname__, value.__name__ = module, name, name
    sys.modules.setdefault(module.split(".")[0], types.ModuleType(module.split(".")[0]))
    setattr(sys.modules.setdefault(module, types.ModuleType(module)), name, value)
    return value


class Storage:
    def __init__(self, kind, key, count):
        self.kind, self.key, self.count = kind, key, count


class Tensor:
    def __init__(self, storage, shape):
        self.storage, self.shape = storage, shape

    def __reduce__(self):
        strides, step = [], 1
        for size in reversed(self.shape):
            strides.insert(0, step)
            step *= size
        return REBUILD, (self.storage, 0, self.shape, tuple(strides), False, collections.OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return ("storage", value.kind, value.key, "cpu", value.count) if isinstance(value, Storage) else None


def save(path, tensors):
    """`tensors` has (name, shape, bytes), float32, or int64 where the shape is ()."""
    global REBUILD
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    try:
        REBUILD = stand_in("torch._utils", "_rebuild_tensor_v2", lambda *_: None)
        floats, longs = (stand_in("torch", name, type(name, (), {})) for name in ("FloatStorage", "LongStorage"))
        state, members = collections.OrderedDict(), []
        for key, (name, shape, content) in enumerate(tensors):
            kind, size = (floats, 4) if shape else (longs, 8)
            state[name] = Tensor(Storage(kind, str(key), len(content) // size), shape)
            members.append((f"archive/data/{key}", content))
        pickled = io.BytesIO()
        Pickler(pickled, protocol=2).dump(state)
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in [("archive/data.pkl", pickled.getvalue()), *members, ("archive/version", b"3\n")]:
            archive.writestr(name, content)


def resnet18(seed=1):
    """Every tensor of torchvision's resnet18, with random weights of the sizes that it begins with."""
    drawn = random.Random(seed)
    unit = [drawn.gauss(0, 1) for _ in range(1 << 14)]

    def filled(count, value):
        return array.array("f", [value]) * count

    def weights(shape):
        count, inputs = 1, 1
        for size in shape:
            count *= size
        for size in shape[1:]:
            inputs *= size
        scale = (2 / inputs) ** 0.5
        some = array.array("f", (scale * x for x in unit))
        return (some * (count // len(some) + 1))[:count]

    def norm(name, channels):
        yield f"{name}.weight", (channels,), filled(channels, 1)
        yield f"{name}.bias", (channels,), filled(channels, 0)
        yield f"{name}.running_mean", (channels,), filled(channels, 0)
        yield f"{name}.running_var", (channels,), filled(channels, 1)
        yield f"{name}.num_batches_tracked", (), array.array("q", [9])

    def convolution(name, *shape):
        yield f"{name}.weight", shape, weights(shape)

    def all_of_them():
        yield from convolution("conv1", 64, 3, 7, 7)
        yield from norm("bn1", 64)
        before = 64
        for layer, channels in enumerate((64, 128, 256, 512), 1):
            for block in range(2):
                name = f"layer{layer}.{block}"
                yield from convolution(f"{name}.conv1", channels, before, 3, 3)
                yield from norm(f"{name}.bn1", channels)
                yield from convolution(f"{name}.conv2", channels, channels, 3, 3)
                yield from norm(f"{name}.bn2", channels)
                if before != channels:
                    yield from convolution(f"{name}.downsample.0", channels, before, 1, 1)
                    yield from norm(f"{name}.downsample.1", channels)
                before = channels
        yield "fc.weight", (1000, 512), weights((1000, 512))
        yield "fc.bias", (1000,), filled(1000, 0)

    return [(name, shape, numbers.tobytes()) for name, shape, numbers in all_of_them()]
