"""Arrays of other libraries, in and out without a copy: pointers are equal. NumPy and PyTorch are tested where they
are."""

import ctypes
import gc
import importlib.util
import threading
import unittest
import weakref

import snug
from package import BATCH, PackageTest, points, quadrants
from snug import _given, _tensor

HAS_NUMPY = importlib.util.find_spec("numpy") is not None
HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_JAX = importlib.util.find_spec("jax") is not None


class CapsuleTest(PackageTest):
    """DLPack itself, with no other library."""

    def capsule_name(self, capsule):
        name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
        return name(capsule)

    def test_a_tensor_is_handed_on_and_taken_back_without_a_copy(self):
        tensor = snug.empty((3, 5, 2), "int64")

        class Other:  # a library that knows DLPack alone
            __dlpack__, __dlpack_device__ = tensor.__dlpack__, tensor.__dlpack_device__

        taken = _given.given("x", Other())
        self.assertEqual((taken.address, taken.shape, taken.number), (tensor.address, (3, 5, 2), 4))
        self.assertEqual(tensor.address % 64, 0)

    def test_capsules_bear_the_names_of_their_version(self):
        tensor = snug.empty(4)
        self.assertEqual(self.capsule_name(tensor.__dlpack__()), b"dltensor")
        self.assertEqual(self.capsule_name(tensor.__dlpack__(max_version=(1, 1))), b"dltensor_versioned")
        self.assertEqual(self.capsule_name(tensor.__dlpack__(max_version=(0, 8))), b"dltensor")
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        for options in ({"stream": 1}, {"dl_device": (2, 0)}):
            with self.assertRaises(BufferError):
                tensor.__dlpack__(**options)
        tensor.__dlpack__(stream=None, max_version=(1, 0), dl_device=(1, 0), copy=False)

    def test_bytes_stay_as_long_as_a_capsule_looks_at_them(self):
        session = snug.Session(quadrants(), batch=BATCH, seed=1)
        score = session.step(points(), copy=False)["score"]
        values, address = score.tolist(), score.address
        capsule = score.__dlpack__()
        session.close()
        del session, score
        gc.collect()
        self.assertEqual([(ctypes.c_float * 4).from_address(address)[i] for i in range(4)], values[0])
        del capsule

    def test_an_unused_capsule_ends_well_while_an_exception_is_on_its_way(self):
        def fails(version):
            capsule = snug.empty(1000).__dlpack__(max_version=version)  # noqa: F841: it goes with the frame
            raise KeyError("mine")
        for version in (None, (1, 0)):
            for _ in range(100):
                with self.assertRaises(KeyError):
                    fails(version)

    def test_a_capsule_may_end_in_another_thread(self):
        capsules = [snug.empty(1000).__dlpack__() for _ in range(100)]
        thread = threading.Thread(target=capsules.clear)
        thread.start()
        thread.join()
        self.assertEqual(capsules, [])

    def producer(self, tensor, flags=0, major=1):
        """An object that knows DLPack 1 alone, and says this of the tensor."""
        class Producer:
            asked = []

            def __dlpack_device__(self):
                return 1, 0

            def __dlpack__(self, *, max_version=None):
                self.asked.append(max_version)
                capsule = tensor.__dlpack__(max_version=max_version)
                if max_version is not None:
                    address = _given._pointer_in(capsule, b"dltensor_versioned")
                    managed = _given._DLManagedTensorVersioned.from_address(address)
                    managed.flags, managed.major = flags, major
                return capsule
        return Producer()

    def test_what_is_only_to_be_read_is_no_output(self):
        numbers = points()
        read_only, copied = 1, 2
        for flags in (0, read_only, copied):
            score, point = snug.empty((BATCH, 4)), snug.empty((BATCH, 2))
            producer = self.producer(score, flags)
            given = _given.given("x", producer)
            self.assertEqual((given.writable, given.address, given.shape), (flags == 0, score.address, (BATCH, 4)))
            self.assertEqual(producer.asked, [(1, 0)])
            session = snug.Session(quadrants(), batch=BATCH, seed=1, bound=["point", "score"])
            session.bind("point", self.producer(point, flags))  # inputs are only read
            if flags:
                self.error(snug.Error, lambda: session.bind("score", producer), 'output "score"', "only to be read")
            else:
                session.bind("score", producer)
                session.step(quadrant=numbers["quadrant"])
        self.error(snug.Error, lambda: _given.given("x", self.producer(snug.empty(3), major=2)),
                   "x: expected DLPack of version 1, found version 2.")

    def test_producers_of_before_version_1_are_asked_as_they_know(self):
        tensor, asked = snug.empty((2, 3)), []

        class Older:
            def __dlpack_device__(self):
                return 1, 0

            def __dlpack__(self, stream=None):
                asked.append(stream)
                return tensor.__dlpack__()
        given = _given.given("x", Older())
        self.assertEqual((given.address, given.writable, asked), (tensor.address, True, [None]))

    def test_what_the_producer_refuses_is_said(self):
        class Refuses:
            def __dlpack_device__(self):
                return 1, 0

            def __dlpack__(self):
                raise BufferError("it needs a gradient")
        self.error(snug.Error, lambda: _given.given('input "x"', Refuses()), 'input "x"', "it needs a gradient")

    def test_bfloat16_is_widened_exactly(self):
        text = """name: "n" input { name: "x" shape { dim: 3 } } layer { name: "y" input: "x" relu {} } output: "y" """
        session = snug.Session(snug.Network.from_text(text), training=False, precision="bfloat16", batch=1)
        y = session.step({"x": [[1.0, 2.5, -3.0]]})["y"]
        self.assertEqual((y.dtype, y.tolist(), y.astype("float32").tolist()),
                         ("bfloat16", [[1.0, 2.5, 0.0]], [[1.0, 2.5, 0.0]]))
        self.error(snug.DTypeError, y.numpy, "bfloat16", "astype")
        self.assertFalse(hasattr(y, "__array_interface__"))
        self.assertEqual(session.fetch("y", "float64").tolist(), [[1.0, 2.5, 0.0]])
        # What is fetched is a copy, of an output in the caller's own memory, too.
        session = snug.Session(snug.Network.from_text(text), training=False, precision="bfloat16", batch=1, bound="y")
        mine = snug.empty((1, 3), "bfloat16")
        self.assertIs(session.step({"x": [[1.0, 2.5, -3.0]], "y": mine})["y"], mine)
        fetched = session.fetch("y")
        self.assertEqual((fetched.dtype, fetched.tolist()), ("bfloat16", mine.tolist()))
        self.assertNotEqual(fetched.address, mine.address)


@unittest.skipUnless(HAS_NUMPY, "NumPy is not installed")
class NumpyTest(PackageTest):
    def setUp(self):
        super().setUp()
        import numpy
        self.numpy = numpy
        self.point = numpy.random.default_rng(1).uniform(-1, 1, (BATCH, 2)).astype(numpy.float32)
        self.quadrant = ((self.point[:, 0] < 0) + 2 * (self.point[:, 1] < 0)).astype(numpy.int32)

    def test_out_without_a_copy(self):
        session = snug.Session(quadrants(), batch=BATCH, seed=1)
        view = session.step({"point": self.point, "quadrant": self.quadrant}, copy=False)["score"]
        for array in (self.numpy.asarray(view), view.numpy(), self.numpy.from_dlpack(view)):
            self.assertEqual(array.__array_interface__["data"][0], view.address)
            self.assertEqual((array.shape, array.dtype), ((BATCH, 4), self.numpy.float32))
        weight = session.parameters["hidden.weight"].numpy()
        weight[:] = 0.5
        self.assertEqual(session.parameters["hidden.weight"].tolist(), [[0.5, 0.5]] * 32)
        session.close()
        del session, view
        gc.collect()
        self.assertTrue((weight == 0.5).all())  # the array keeps the bytes

    def test_in_without_a_copy(self):
        given = _given.given("x", self.point)
        self.assertEqual(given.address, self.point.__array_interface__["data"][0])
        point, score = (self.numpy.asarray(snug.empty(shape)) for shape in ((BATCH, 2), (BATCH, 4)))
        point[:] = self.point
        session = snug.Session(quadrants(), batch=BATCH, seed=1, bound=["point", "score"])
        outputs = session.step({"point": point, "quadrant": self.quadrant, "score": score})
        self.assertIs(outputs["score"], score)
        other = snug.Session(quadrants(), batch=BATCH, seed=1)
        self.assertTrue((score == other.step({"point": self.point, "quadrant": self.quadrant})["score"].numpy()).all())

    def test_what_is_bound_is_kept_alive(self):
        session = snug.Session(quadrants(), batch=BATCH, seed=1, bound="point")
        point = self.numpy.asarray(snug.empty((BATCH, 2)))
        point[:] = self.point
        kept = weakref.ref(point)
        session.bind("point", point)
        del point
        gc.collect()
        self.assertIsNotNone(kept())
        session.step(quadrant=self.quadrant)
        session.close()
        gc.collect()
        self.assertIsNone(kept())

    def test_other_types_are_converted_or_refused(self):
        sessions = [snug.Session(quadrants(), batch=BATCH, seed=1) for _ in range(2)]
        losses = [session.step({"point": self.point.astype(kind),
                                "quadrant": self.quadrant.astype(whole)})["loss"].item()
                  for session, kind, whole in zip(sessions, ("float32", "float64"), ("int32", "int64"))]
        self.assertEqual(losses[0], losses[1])
        step = lambda **feeds: lambda: sessions[0].step(  # noqa: E731
            {"point": self.point, "quadrant": self.quadrant, **feeds})
        self.error(snug.DTypeError, step(point=self.point.astype("float16")), "float16")
        self.error(snug.DTypeError, step(quadrant=self.quadrant.astype("bool")), "bool")
        self.error(snug.DTypeError, step(point=self.point.astype(">f4")), ">f4")
        self.error(snug.DTypeError, step(quadrant=self.quadrant.astype("float32")), "expected integers")
        self.error(snug.NotContiguousError, step(point=self.numpy.asfortranarray(self.point)), "ascontiguousarray")
        self.error(snug.NotContiguousError, step(point=self.numpy.repeat(self.point, 2, 0)[::2]), "strides (16, 4)")
        self.error(snug.ShapeError, step(point=self.point.ravel()), "(16, 2)", "(32,)")
        frozen = self.point.copy()
        frozen.flags.writeable = False
        step(point=frozen)()  # inputs are only read
        bound = snug.Session(quadrants(), batch=BATCH, bound="score")
        out = self.numpy.asarray(snug.empty((BATCH, 4)))
        out.flags.writeable = False
        self.error(snug.Error, lambda: bound.bind("score", out), "only to be read")

        class ByDlpack:  # NumPy before 2.1 refuses to hand it on, which is said; later ones say that it is read-only
            __dlpack__, __dlpack_device__ = out.__dlpack__, out.__dlpack_device__
        self.error(snug.Error, lambda: bound.bind("score", ByDlpack()), "score", "read")

    def test_one_number(self):
        self.assertEqual(_given.given("x", self.numpy.float32(1.5)).shape, ())
        session = snug.Session(quadrants(), batch=BATCH)
        session.learning_rate = self.numpy.float32(0.25)
        self.assertEqual(session.learning_rate, 0.25)

    def test_plots_take_tensors(self):
        session = snug.Session(quadrants(), batch=BATCH)
        losses = [session.step({"point": self.point, "quadrant": self.quadrant})["loss"] for _ in range(5)]
        array = self.numpy.array(losses, dtype=float)
        self.assertEqual(array.shape, (5,))
        self.assertLess(array[-1], array[0])


@unittest.skipUnless(HAS_TORCH, "PyTorch is not installed")
class TorchTest(PackageTest):
    def setUp(self):
        super().setUp()
        import torch
        self.torch = torch
        torch.manual_seed(1)
        self.point = torch.rand(BATCH, 2) * 2 - 1
        self.quadrant = ((self.point[:, 0] < 0).int() + 2 * (self.point[:, 1] < 0).int()).int()

    def test_round_trips_have_equal_pointers(self):
        for dtype in ("float32", "float64", "int32", "int64", "uint8", "bfloat16"):
            tensor = snug.empty((4, 3), dtype)
            there = self.torch.from_dlpack(tensor)
            self.assertEqual((there.data_ptr(), str(there.dtype)), (tensor.address, f"torch.{dtype}"))
            back = _given.given("x", there)
            self.assertEqual((back.address, _tensor.DTYPES[back.number], back.shape), (tensor.address, dtype, (4, 3)))

    def test_a_session_reads_and_writes_its_tensors(self):
        torch = self.torch
        session = snug.Session(quadrants(), batch=BATCH, seed=1, bound=["point", "score"])
        score = torch.from_dlpack(snug.empty((BATCH, 4)))
        point = torch.from_dlpack(snug.empty((BATCH, 2))).copy_(self.point)
        outputs = session.step({"point": point, "quadrant": self.quadrant, "score": score})
        self.assertIs(outputs["score"], score)
        # The same by PyTorch.
        weights = {name: torch.from_dlpack(tensor) for name, tensor in
                   snug.Session(quadrants(), batch=BATCH, seed=1).parameters.items()}
        hidden = torch.tanh(self.point @ weights["hidden.weight"].T + weights["hidden.bias"])
        expected = hidden @ weights["score.weight"].T + weights["score.bias"]
        self.assertTrue(torch.allclose(score, expected, atol=1e-5), (score - expected).abs().max())
        loss = torch.nn.functional.cross_entropy(expected, self.quadrant.long())
        self.assertAlmostEqual(outputs["loss"].item(), loss.item(), places=4)

    def test_tensors_keep_the_bytes(self):
        session = snug.Session(quadrants(), batch=BATCH, seed=1)
        view = self.torch.from_dlpack(session.parameters["score.weight"])
        self.assertEqual(view.data_ptr(), session.parameters["score.weight"].address)
        values = view.clone()
        session.close()
        del session
        gc.collect()
        self.assertTrue(self.torch.equal(view, values))

    def test_wrong_ones_are_refused(self):
        session = snug.Session(quadrants(), batch=BATCH, seed=1)
        step = lambda **feeds: lambda: session.step(  # noqa: E731
            {"point": self.point, "quadrant": self.quadrant, **feeds})
        self.error(snug.NotContiguousError, step(point=self.point.T.contiguous().T), "contiguous()")
        self.error(snug.DTypeError, step(point=self.point.half()), "float16")
        # PyTorch 1.13 hands no booleans on itself; later ones do, and they are refused here.
        self.error(snug.Error, step(quadrant=self.quadrant.bool()), 'input "quadrant"', "ool")
        self.error(snug.Error, step(point=self.point.clone().requires_grad_()), 'input "point"', "DLPack")
        self.error(snug.ShapeError, step(point=self.point[:8]), "(8, 2)")
        if self.torch.cuda.is_available():
            self.error(snug.DeviceError, step(point=self.point.cuda()), "cuda")
        step()()


class OnADeviceTest(PackageTest):
    """What lies in a GPU's memory is refused by what it says of itself, before its library is asked for anything."""

    def on(self, device):
        class Elsewhere:
            def __dlpack_device__(self):
                return device, 0

            def __dlpack__(self, **options):
                raise AssertionError("the bytes of another device were asked for")
        return Elsewhere()

    def test_tensors_of_cuda_and_others(self):
        session = snug.Session(quadrants(), batch=BATCH, seed=1, bound=["score"])
        numbers = points()
        score = snug.empty((BATCH, 4))
        session.bind("score", score)
        for device, name in ((2, "cuda"), (10, "rocm"), (13, "cuda_managed"), (99, "DLPack's device 99")):
            step = lambda device=device: session.step({**numbers, "point": self.on(device)})  # noqa: E731
            said = f"found them on {name}: move them there: tensor.cpu() of PyTorch, cupy.asnumpy(array)"
            self.error(snug.DeviceError, step, 'input "point": expected numbers in the processor\'s memory', said)
            self.error(snug.DeviceError, lambda device=device: session.bind("score", self.on(device)), "score", said)
            self.error(snug.DeviceError,
                       lambda device=device: session.parameters.__setitem__("score.bias", self.on(device)),
                       'variable "score.bias"', said)
        self.assertEqual(session.steps, 0)
        session.step(numbers)  # and nothing was changed
        other = snug.Session(quadrants(), batch=BATCH, seed=1)
        self.assertEqual(score.tolist(), other.step(numbers)["score"].tolist())

    def test_memory_of_the_processor_that_cuda_knows_is_taken(self):
        tensor = snug.empty((BATCH, 2))

        class Pinned:
            __dlpack__ = tensor.__dlpack__

            def __dlpack_device__(self):
                return 3, 0
        self.assertEqual(_given.given("x", Pinned()).address, tensor.address)


@unittest.skipUnless(HAS_JAX, "SKIPPED: JAX is not installed")
class JaxTest(PackageTest):
    """Arrays of JAX are never to be written."""

    def test_they_are_read_in_place_and_are_no_outputs(self):
        import jax.numpy
        numbers = points()
        point = jax.numpy.asarray([[1.0, 2.0]] * BATCH, dtype="float32")
        given = _given.given("x", point)
        self.assertEqual((given.address, given.shape), (point.unsafe_buffer_pointer(), (BATCH, 2)))
        session = snug.Session(quadrants(), batch=BATCH, seed=1, bound="score")
        self.error(snug.Error, lambda: session.bind("score", jax.numpy.zeros((BATCH, 4), "float32")), "only to be read")
        other = snug.Session(quadrants(), batch=BATCH, seed=1)
        other.step({"point": point, "quadrant": numbers["quadrant"]})

    def test_round_trips_have_equal_pointers(self):
        import jax.numpy
        for dtype in ("float32", "int32", "uint8", "bfloat16"):
            tensor = snug.empty((4, 3), dtype)
            there = jax.numpy.from_dlpack(tensor)
            self.assertEqual((there.unsafe_buffer_pointer(), str(there.dtype)), (tensor.address, dtype))
            back = _given.given("x", there)
            self.assertEqual((back.address, _tensor.DTYPES[back.number], back.shape), (tensor.address, dtype, (4, 3)))
            self.assertFalse(back.writable)

    def test_outputs_and_parameters_are_looked_at(self):
        import jax
        import jax.numpy
        numbers = points()
        session = snug.Session(quadrants(), batch=BATCH, seed=1)
        weights = {name: jax.numpy.from_dlpack(tensor).copy() for name, tensor in session.parameters.items()}
        outputs = session.step(numbers, copy=False)
        score = jax.numpy.from_dlpack(outputs["score"])
        self.assertEqual(score.unsafe_buffer_pointer(), outputs["score"].address)
        # The same by JAX.
        point = jax.numpy.asarray(numbers["point"])
        hidden = jax.numpy.tanh(point @ weights["hidden.weight"].T + weights["hidden.bias"])
        expected = hidden @ weights["score.weight"].T + weights["score.bias"]
        self.assertLess(abs(score - expected).max(), 1e-5)
        chosen = jax.nn.log_softmax(expected)[jax.numpy.arange(BATCH), jax.numpy.asarray(numbers["quadrant"])]
        self.assertAlmostEqual(outputs["loss"].item(), -float(chosen.mean()), places=5)
        session.close()
        del session, outputs
        gc.collect()
        self.assertLess(abs(score - expected).max(), 1e-5)  # the array keeps the bytes


if __name__ == "__main__":
    unittest.main()
