"""Tensors that follow from their names, as tests/testing/parity_golden.h makes them: with `hash` = FNV-1a (64 bits) of the
name and MixKeys of engine/base/random.h,

    uniform:  element i = (int(MixKeys(hash, i) >> 40) - 2^23) * 2^-23 * scale, in [-scale, scale)
    class:    element i = (MixKeys(hash, i) >> 33) % classes
"""

import math

import numpy
import torch


def mix_keys(key, index):
    """MixKeys(key, index) of engine/base/random.h, for an array of indices."""
    with numpy.errstate(over="ignore"):
        z = numpy.uint64(key) + numpy.uint64(0x9E3779B97F4A7C15) * (index + numpy.uint64(1))
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return z ^ (z >> numpy.uint64(31))


def fnv1a(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def words(name, dims):
    return mix_keys(fnv1a(name), numpy.arange(math.prod(dims), dtype=numpy.uint64)).reshape(dims)


def uniform(name, scale, dims):
    signed = (words(name, dims) >> numpy.uint64(40)).astype(numpy.int64) - 2**23
    return torch.from_numpy(signed.astype(numpy.float64) * 2.0**-23 * scale)


def classes(name, count, dims):
    return torch.from_numpy(((words(name, dims) >> numpy.uint64(33)) % numpy.uint64(count)).astype(numpy.int64))


def make(name, kind, number, dims):
    if kind == "uniform":
        return uniform(name, number, dims)
    if kind == "class":
        return classes(name, number, dims)
    return torch.full(dims, number, dtype=torch.float64)
