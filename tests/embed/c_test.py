"""libsnug as other languages see it: by the functions of snug/c.h, here through Python's ctypes."""

import ctypes
import os
import pathlib
import random
import re
import tempfile
import threading
import unittest

SOURCE = pathlib.Path(os.environ["SNUG_SOURCE_DIR"])
LIBRARY = ctypes.CDLL(str(pathlib.Path(os.environ["SNUG_BUILD_DIR"]) / "libsnug/libsnug.so"))
TRAINING, EVALUATION = 0, 1
FLOAT32, BFLOAT16, FLOAT64, INT32 = 0, 1, 2, 3
RESUME, WEIGHTS = 0, 2
INVALID_ARGUMENT, NOT_FOUND = 3, 5


class Memory(ctypes.Structure):
    _fields_ = [("state_bytes", ctypes.c_int64), ("step_bytes", ctypes.c_int64), ("lower_bound", ctypes.c_int64),
                ("proven", ctypes.c_int32), ("strategy", ctypes.c_char * 60), ("reserved", ctypes.c_int64 * 4)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_int32),
                ("dtype", ctypes.c_int32), ("reserved", ctypes.c_int64 * 2)]


for name in ("error_message", "names_at", "version"):
    getattr(LIBRARY, f"snug_{name}").restype = ctypes.c_char_p
LIBRARY.snug_names_count.restype = ctypes.c_size_t
LIBRARY.snug_steps.restype = ctypes.c_int64


class SnugError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def call(name, *arguments):
    """Calls a function that gives an error or nothing."""
    function = getattr(LIBRARY, f"snug_{name}")
    function.restype = ctypes.c_void_p
    error = function(*(a.encode() if isinstance(a, str) else a for a in arguments))
    if error:
        failed = SnugError(LIBRARY.snug_error_code(ctypes.c_void_p(error)),
                           LIBRARY.snug_error_message(ctypes.c_void_p(error)).decode())
        LIBRARY.snug_error_free(ctypes.c_void_p(error))
        raise failed


def made(name, *arguments):
    """What such a function gives through its last argument."""
    result = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(result))
    return result


def names_of(names):
    texts = [LIBRARY.snug_names_at(names, ctypes.c_size_t(i)).decode() for i in range(LIBRARY.snug_names_count(names))]
    LIBRARY.snug_names_free(names)
    return texts


def options_of(**options):
    handle = made("options_new")
    for name, value in options.items():
        if isinstance(value, str):
            call("options_set_text", handle, name, value)
        elif isinstance(value, float):
            call("options_set_number", handle, name, ctypes.c_double(value))
        else:
            call("options_set_integer", handle, name, ctypes.c_int64(value))
    return handle


def mlp_session(**options):
    network = made("network_from_file", str(SOURCE / "models/mlp.pbtxt"))
    handle = options_of(**options)
    session = made("session_create", network, handle)
    LIBRARY.snug_options_free(handle)
    LIBRARY.snug_network_free(network)
    return session


def feed(session, program, name, numbers, kind, dtype):
    call("feed", session, program, name, (kind * len(numbers))(*numbers), ctypes.c_int64(len(numbers)), dtype)


def scalar(session, program, name):
    value = ctypes.c_double()
    call("fetch_scalar", session, program, name, ctypes.byref(value))
    return value.value


def digits(count, seed):
    """Pictures of which the lit tenth says the class."""
    numbers = random.Random(seed)
    labels = [numbers.randrange(10) for _ in range(count)]
    pixels = [1.0 if i // 78 == label else numbers.random() / 2 for label in labels for i in range(784)]
    return pixels, labels


def train(session, steps, batch):
    losses = []
    for step in range(steps):
        pixels, labels = digits(batch, step)
        feed(session, TRAINING, "image", pixels, ctypes.c_float, FLOAT32)
        feed(session, TRAINING, "label", labels, ctypes.c_int32, INT32)
        call("step", session, TRAINING)
        losses.append(scalar(session, TRAINING, "loss"))
    return losses


class CTest(unittest.TestCase):
    def error_of(self, code, name, *arguments):
        with self.assertRaises(SnugError) as raised:
            call(name, *arguments)
        self.assertEqual(raised.exception.code, code, raised.exception)
        return str(raised.exception)

    def test_trains_saves_and_goes_on_bit_for_bit(self):
        session, other = mlp_session(batch=16, seed=3), mlp_session(batch=16, seed=3)
        for handle in (session, other):
            call("set_learning_rate", handle, ctypes.c_double(0.1))
        losses = train(session, 30, 16)
        self.assertLess(losses[-1], losses[0] / 2)
        with tempfile.TemporaryDirectory() as folder:
            path = made("save", session, folder, 3)
            self.assertTrue(ctypes.string_at(path).decode().endswith("step-000000030.safetensors"))
            LIBRARY.snug_text_free(path)
            call("restore", other, folder, RESUME)
            self.assertEqual(LIBRARY.snug_steps(other), 30)
            self.assertIn("nowhere", self.error_of(NOT_FOUND, "restore", other, folder + "/nowhere", WEIGHTS))
        self.assertEqual(train(session, 3, 16), train(other, 3, 16))
        for handle in (session, other):
            LIBRARY.snug_session_free(handle)

    def test_sees_its_numbers_in_place(self):
        session = mlp_session(batch=4, evaluation_batch=2, keep_inputs=1)
        self.assertEqual(names_of(made("inputs", session, TRAINING)), ["image", "label"])
        self.assertIn("loss", names_of(made("outputs", session, TRAINING)))
        variables = names_of(made("variables", session))
        self.assertIn("fc1.weight", variables)
        tensor = Tensor()
        call("variable", session, variables[variables.index("fc1.weight")], ctypes.byref(tensor))
        shape = tensor.shape[:tensor.rank]
        self.assertEqual((shape[1], tensor.dtype), (784, FLOAT32))
        call("input", session, EVALUATION, "image", ctypes.byref(tensor))
        self.assertEqual(tensor.shape[:tensor.rank], [2, 784])
        pixels, labels = digits(2, 1)
        ctypes.memmove(tensor.data, (ctypes.c_float * len(pixels))(*pixels), 4 * len(pixels))
        feed(session, EVALUATION, "label", labels, ctypes.c_int32, INT32)
        call("step", session, EVALUATION)
        written = scalar(session, EVALUATION, "loss")
        feed(session, EVALUATION, "image", pixels, ctypes.c_double, FLOAT64)
        feed(session, EVALUATION, "label", labels, ctypes.c_int32, INT32)
        call("step", session, EVALUATION)
        self.assertEqual(scalar(session, EVALUATION, "loss"), written)
        batch, rate = ctypes.c_int64(), ctypes.c_double()
        call("batch", session, TRAINING, ctypes.byref(batch))
        call("set_learning_rate", session, ctypes.c_double(0.25))
        call("learning_rate", session, ctypes.byref(rate))
        self.assertEqual((batch.value, rate.value), (4, 0.25))
        LIBRARY.snug_session_free(session)

    def test_binds_memory_of_its_own(self):
        session = mlp_session(batch=2, bound="image")
        pixels, labels = digits(2, 5)
        room = ctypes.create_string_buffer(4 * len(pixels) + 64)
        begin = (ctypes.addressof(room) + 63) // 64 * 64
        ctypes.memmove(begin, (ctypes.c_float * len(pixels))(*pixels), 4 * len(pixels))
        call("bind", session, TRAINING, "image", ctypes.c_void_p(begin), ctypes.c_int64(len(pixels)), FLOAT32, 0)
        feed(session, TRAINING, "label", labels, ctypes.c_int32, INT32)
        call("step", session, TRAINING)
        self.assertGreater(scalar(session, TRAINING, "loss"), 0)
        self.assertEqual(ctypes.string_at(begin, 8), bytes((ctypes.c_float * 2)(*pixels[:2])))
        LIBRARY.snug_session_free(session)

    def test_a_plan_takes_what_a_session_takes(self):
        network = made("network_from_file", str(SOURCE / "models/lenet.pbtxt"))
        options = options_of(batch=8, memory="best")
        planned, taken = Memory(), Memory()
        call("plan", network, options, ctypes.byref(planned))
        session = made("session_create", network, options)
        call("session_memory", session, TRAINING, ctypes.byref(taken))
        self.assertEqual(bytes(planned), bytes(taken))
        self.assertEqual(planned.strategy, b"best")
        self.assertGreaterEqual(planned.state_bytes + planned.step_bytes, planned.lower_bound)
        call("plan", network, options_of(batch=8, memory="dynamic", gc_fraction=0.5), ctypes.byref(planned))
        text = made("network_to_text", network)
        again = made("network_from_text", ctypes.string_at(text), "again")
        LIBRARY.snug_text_free(text)
        call("plan", again, options, ctypes.byref(planned))
        self.assertEqual(bytes(planned), bytes(taken))

    def test_a_network_with_other_classes(self):
        network = made("network_from_file", str(SOURCE / "models/lenet.pbtxt"))
        fewer = made("network_with_classes", network, ctypes.c_int64(3))
        shapes = []
        for one in (network, fewer):
            session = made("session_create", one, options_of(batch=2))
            weight = Tensor()
            call("variable", session, "fc3.weight", ctypes.byref(weight))
            shapes.append(tuple(weight.shape[:weight.rank]))
            LIBRARY.snug_session_free(session)
            LIBRARY.snug_network_free(one)
        self.assertEqual(shapes, [(10, 84), (3, 84)])
        network = made("network_from_text", 'name: "n" input { name: "x" } layer { name: "y" input: "x" relu {} } output: "y"', "n")
        for arguments, expected in (((network, ctypes.c_int64(0)), "classes: expected 1 to 10000000, found 0"),
                                    ((network, ctypes.c_int64(2)), "classes: this network has none to set"),
                                    ((None, ctypes.c_int64(2)), 'argument "network"')):
            with self.assertRaises(SnugError) as raised:
                made("network_with_classes", *arguments)
            self.assertIn(expected, str(raised.exception))
            self.assertEqual(raised.exception.code, INVALID_ARGUMENT)
        LIBRARY.snug_network_free(network)

    def test_every_option_of_a_session_has_its_name_here(self):
        fields = re.search(r"struct SessionOptions \{(.*?)\n\};", (SOURCE / "snug/session.h").read_text(), re.S)[1]
        names = re.findall(r"^  [\w:<> ]+[ >](\w+) = ", fields, re.M)
        header = (SOURCE / "snug/c.h").read_text().split("---- options of a session ----")[1].split("*/\ntypedef")[0]
        words = set(re.findall(r"\w+", header))
        # memory_options are set by their own names; a function that gets the report is C++'s alone.
        missing = [name for name in names if name not in words and name not in ("memory_options", "watchdog_report")]
        self.assertEqual(missing, [])
        self.assertGreater(len(names), 15, names)

    def test_a_watchdog_looks_on(self):
        session = mlp_session(batch=2, seed=1, watchdog=60.0)
        other = mlp_session(batch=2, seed=1, watchdog=60)  # an integer is a number, too
        losses = []
        for each in (session, other):
            feed(each, TRAINING, "image", [0.5] * (2 * 784), ctypes.c_float, FLOAT32)
            feed(each, TRAINING, "label", [1, 2], ctypes.c_int32, INT32)
            call("step", each, TRAINING)
            loss = ctypes.c_float()
            call("fetch", each, TRAINING, "loss", ctypes.byref(loss), ctypes.c_int64(1), FLOAT32)
            losses.append(loss.value)
            LIBRARY.snug_session_free(each)
        self.assertEqual(losses[0], losses[1])

    def test_mistakes_come_back_as_text(self):
        nothing = ctypes.c_void_p()
        text = "name: 'n'\ninput { name: 'x' }\nlayer { name: 'y' input: 'x' dense { units: 'many' } }\n"
        self.assertRegex(self.error_of(INVALID_ARGUMENT, "network_from_text", text, "n.pbtxt", ctypes.byref(nothing)),
                         r"^n\.pbtxt:3:\d+: ")
        self.assertFalse(nothing)
        self.assertIn("no.pbtxt", self.error_of(NOT_FOUND, "network_from_file", "no.pbtxt", ctypes.byref(nothing)))
        options = options_of()
        for arguments, expected in [
                (("options_set_text", options, "threads", "two"), "expected an integer, found a text"),
                (("options_set_integer", options, "precision", ctypes.c_int64(32)),
                 "expected a text, found an integer"),
                (("options_set_text", options, "precision", "float8"), "float32, bfloat16 or float64"),
                (("options_set_number", options, "batch", ctypes.c_double(1.5)), "expected an integer"),
                (("options_set_integer", options, "threads", ctypes.c_int64(-1)), "found -1"),
                (("options_set_text", options, "watchdog", "60"), "expected a number, found a text"),
                (("options_set_integer", None, "batch", ctypes.c_int64(1)), 'argument "options"')]:
            self.assertIn(expected, self.error_of(INVALID_ARGUMENT, *arguments))
        for seconds in (-1, -0.5):
            with self.assertRaisesRegex(SnugError, f'option "watchdog": expected seconds, found {seconds}'):
                mlp_session(watchdog=seconds)
        with self.assertRaisesRegex(SnugError, "gc_fractoin"):
            mlp_session(memory="dynamic", gc_fractoin=0.5)
        session = mlp_session(batch=2)
        three = (ctypes.c_float * 3)()
        for arguments, expected in [
                (("feed", session, TRAINING, "image", three, ctypes.c_int64(3), FLOAT32), "1568"),
                (("feed", session, TRAINING, "image", three, ctypes.c_int64(3), 77), "expected a snug_dtype"),
                (("feed", session, TRAINING, "image", None, ctypes.c_int64(3), FLOAT32), 'argument "numbers"'),
                (("fetch", session, TRAINING, "loss", three, ctypes.c_int64(1), BFLOAT16), "SNUG_BFLOAT16"),
                (("set_learning_rate", session, ctypes.c_double(-1)), "a finite number of at least 0, found -1"),
                (("set_learning_rate", session, ctypes.c_double(float("nan"))), "found nan"),
                (("step", session, 9), "expected SNUG_TRAINING or SNUG_EVALUATION"),
                (("step", None, TRAINING), 'argument "session"')]:
            self.assertIn(expected, self.error_of(INVALID_ARGUMENT, *arguments))
        with self.assertRaisesRegex(SnugError, "evaluation_batch"):
            call("step", session, EVALUATION)
        LIBRARY.snug_session_free(session)
        for kind in ("error", "network", "options", "session", "names"):
            getattr(LIBRARY, f"snug_{kind}_free")(None)
        LIBRARY.snug_text_free(None)
        self.assertEqual(LIBRARY.snug_error_code(None), 0)
        self.assertRegex(LIBRARY.snug_version().decode(), r"^\d+\.\d+\.\d+$")

    def test_rows_are_picked_out_of_many_samples(self):
        session, other = mlp_session(batch=2, seed=1), mlp_session(batch=2, seed=1)
        pixels, labels = digits(5, 1)
        rows = (ctypes.c_int64 * 2)(4, 0)
        for name, numbers, kind, dtype, length in [("image", pixels, ctypes.c_double, FLOAT64, 784),
                                                   ("label", labels, ctypes.c_int32, INT32, 1)]:
            call("feed_rows", session, TRAINING, name, (kind * len(numbers))(*numbers), ctypes.c_int64(5), dtype, rows)
            picked = [number for row in rows for number in numbers[row * length:(row + 1) * length]]
            feed(other, TRAINING, name, picked, kind, dtype)
        for handle in (session, other):
            call("step", handle, TRAINING)
        self.assertEqual(scalar(session, TRAINING, "loss"), scalar(other, TRAINING, "loss"))
        for wrong in (5, -1):
            self.assertIn(f"expected rows 0 to 4, found {wrong}", self.error_of(
                INVALID_ARGUMENT, "feed_rows", session, TRAINING, "label", (ctypes.c_int32 * 5)(), ctypes.c_int64(5),
                INT32,
                (ctypes.c_int64 * 2)(0, wrong)))
        for handle in (session, other):
            LIBRARY.snug_session_free(handle)

    def test_arrays_outlive_what_they_look_at(self):
        session = mlp_session(batch=2)
        tensor, seen = Tensor(), Tensor()
        call("variable", session, "fc1.weight", ctypes.byref(tensor))
        view = made("array_of", session, ctypes.byref(tensor))
        managed = made("array_dlpack", view, 0)
        bits, address = ctypes.string_at(tensor.data, 64), tensor.data
        LIBRARY.snug_session_free(session)
        call("array_tensor", view, ctypes.byref(seen))
        self.assertEqual((seen.data, seen.shape[:2], seen.dtype), (address, [256, 784], FLOAT32))
        LIBRARY.snug_array_free(view)
        # DLPack's struct: the data first, and the deleter last.
        self.assertEqual(ctypes.c_void_p.from_address(managed.value).value, address)
        self.assertEqual(ctypes.string_at(address, 64), bits)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ctypes.c_void_p.from_address(managed.value + 56).value)(managed.value)
        own = made("array_new", BFLOAT16, (ctypes.c_int64 * 2)(3, 5), 2)
        call("array_tensor", own, ctypes.byref(seen))
        self.assertEqual((seen.data % 64, seen.shape[:2], seen.dtype), (0, [3, 5], BFLOAT16))
        LIBRARY.snug_array_free(own)
        nothing = ctypes.c_void_p()
        for shape in ([-1], [2**40, 2**40]):
            self.assertIn("sizes of at least 0", self.error_of(
                INVALID_ARGUMENT, "array_new", FLOAT32, (ctypes.c_int64 * len(shape))(*shape), len(shape),
                ctypes.byref(nothing)))
        LIBRARY.snug_array_free(None)

    def test_two_threads_have_a_session_each(self):
        losses = {}

        def run(number):
            losses[number] = train(mlp_session(batch=8, seed=7), 10, 8)

        threads = [threading.Thread(target=run, args=(number,)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(len(losses[0]), 10)


if __name__ == "__main__":
    unittest.main()
