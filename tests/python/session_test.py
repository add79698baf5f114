"""Sessions from Python: training, checkpoints, mistakes, threads, processes, and that nothing leaks."""

import array
import ctypes
import gc
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest
import weakref

import snug
from package import BATCH, BINARY, QUADRANTS, PackageTest, points, quadrants


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def train(session, steps, begin=0):
    return [session.step(points(seed=begin + i))["loss"].item() for i in range(steps)]


class TrainingTest(PackageTest):
    def test_it_trains_saves_and_goes_on_bit_for_bit(self):
        with snug.Session(quadrants(), batch=BATCH, seed=3) as session:
            losses = train(session, 200)
            self.assertLess(sum(losses[-10:]), sum(losses[:10]) / 3)
            self.assertEqual(session.steps, 200)
            path = session.save(self.folder / "checkpoints")
            self.assertTrue(path.endswith("step-000000200.safetensors"), path)
            other = snug.Session(quadrants(), batch=BATCH, seed=3)
            other.load(self.folder / "checkpoints")
            self.assertEqual(other.steps, 200)
            self.assertEqual(train(session, 3, 500), train(other, 3, 500))

    def test_updates_are_made_one_after_the_other(self):
        weight = 'bias: false } param { name: "weight" '
        network = snug.Network.from_text(f"""
            input {{ name: "x" shape {{ dim: 1 }} }}
            layer {{ name: "b" input: "x" dense {{ units: 1 {weight} init {{ kind: CONSTANT value: 0.5 }} }} }}
            layer {{ name: "a" input: "b" dense {{ units: 1 {weight} init {{ kind: CONSTANT value: 2 }} }} }}
            layer {{ name: "again" input: "b" dense {{ units: 1 {weight} tie: "a.weight" }} }}
            layer {{ name: "first" input: "a" reduce_sum {{}} }}
            layer {{ name: "second" input: "again" reduce_sum {{}} }}
            objective: ["first", "second"]
            update {{ objective: "first" parameter: "a.*" optimizer {{ learning_rate: 3 sgd {{}} }} }}
            update {{ objective: "second" parameter: "b.*" }}
            optimizer {{ learning_rate: 0.25 sgd {{}} }}""")
        with snug.Session(network, batch=1) as session:
            one = {"x": memoryview(array.array("f", [1])).cast("B").cast("f", (1, 1))}
            # The first update makes a of 2 a 2 - 3 * 0.5, which the second reads: b becomes 0.5 - 0.25 * 0.5.
            for expected in ((2 * 0.5, 0.5 * 0.5), (0.5 * 0.375, (0.5 - 3 * 0.375) * 0.375)):
                losses = session.step(one)
                self.assertEqual((losses["first"].item(), losses["second"].item()), expected)

    def test_the_command_goes_on_from_its_checkpoints_and_it_from_the_commands(self):
        model = self.folder / "quadrants.pbtxt"
        model.write_text(QUADRANTS + 'training { batch: 16 data { csv { file: "points.csv" label: "quadrant" } } }\n')
        rows = points(160)
        xy = rows["point"].cast("B").cast("f")
        (self.folder / "points.csv").write_text("x,y,quadrant\n" + "".join(
            f"{xy[2 * i]},{xy[2 * i + 1]},{rows['quadrant'][i]}\n" for i in range(160)))

        def command(*flags):
            done = subprocess.run([BINARY, "train", str(model), f"--output={self.folder / 'run'}", *flags],
                                  capture_output=True, text=True, cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout + done.stderr

        command("--steps=20", "--seed=5")
        session = snug.Session(snug.Network(model), batch=BATCH, seed=5)
        session.load(self.folder / "run", "continue")
        self.assertEqual(session.steps, 20)
        train(session, 2)
        session.save(self.folder / "run/checkpoints")
        self.assertIn("22", command("--steps=24", "--seed=5", "--resume"))
        session.load(self.folder / "run", "continue")
        self.assertEqual(session.steps, 24)
        self.error(snug.Error, lambda: session.load(self.folder / "run", "everything"), "resume, continue, weights")
        missing = self.error(snug.Error, lambda: session.load(self.folder / "nowhere"), "nowhere")
        self.assertEqual(missing.code, "NOT_FOUND")

    def test_fit_trains_on_arrays_and_evaluation_judges(self):
        data, held_back = points(160), points(64, seed=99)
        seen = []
        with snug.Session(quadrants(), batch=BATCH, evaluation_batch=32, seed=1) as session:
            epochs = session.fit(data, epochs=20, learning_rate=lambda step: 0.05 / (1 + step / 100),
                                 validation=held_back,
                                 on_step=lambda step, outputs: seen.append((step, outputs["loss"])))
            self.assertEqual([epoch.number for epoch in epochs], list(range(1, 21)))
            self.assertEqual([step for step, _ in seen], list(range(1, 201)))
            self.assertAlmostEqual(epochs[0].means["loss"], sum(loss for _, loss in seen[:10]) / 10)
            self.assertLess(epochs[-1].validation["loss"], 0.3 * epochs[0].validation["loss"])
            self.assertEqual(session.evaluation.evaluate(held_back), epochs[-1].validation)
            self.assertAlmostEqual(session.learning_rate, 0.05 / (1 + 199 / 100), places=7)
            scores = session.evaluation.predict(points(50, seed=98), "score")
            self.assertEqual(scores.shape, (50, 4))
            right = sum(row.index(max(row)) == label
                        for row, label in zip(scores.tolist(), points(50, seed=98)["quadrant"]))
            self.assertGreater(right, 40)
            ended = session.fit(data, epochs=5, on_epoch=lambda epoch: epoch.number < 2)
            self.assertEqual(len(ended), 2)
            for call, expected in [
                    (lambda: session.fit({"point": data["point"]}), "quadrant"),
                    (lambda: session.fit({**data, "quadrant": data["quadrant"][:150]}), "expected 160 samples"),
                    (lambda: session.fit(points(8)), "at least a batch of 16"),
                    (lambda: session.evaluate(data), "session.evaluation.evaluate"),
                    (lambda: session.evaluation.evaluate(points(40)),
                     "a multiple of the batch of 32 samples, found 40"),
                    (lambda: session.evaluation.predict(data, "scroe"), "score")]:
                self.error(snug.Error, call, expected)

    def test_what_is_held_back_is_checked_before_the_first_step(self):
        session = snug.Session(quadrants(), batch=BATCH, evaluation_batch=BATCH)
        with self.assertRaisesRegex(snug.Error, f"validation: expected a multiple of the evaluation_batch of {BATCH} samples, found"):
            session.fit(points(4 * BATCH), validation=points(BATCH + 1))
        self.assertEqual(session.steps, 0)

    def test_a_network_gets_as_many_classes_as_the_data_have(self):
        data = points(160)
        two = {"point": data["point"], "quadrant": array.array("i", [label % 2 for label in data["quadrant"]])}
        network = quadrants()
        fewer = network.with_classes(2)
        self.assertIn("units: 4", network.text)  # it stays
        self.assertIn("units: 2", fewer.text)
        with snug.Session(fewer, batch=BATCH, seed=1) as session:
            self.assertEqual(session.parameters["score.weight"].shape, (2, 32))
            epochs = session.fit(two, epochs=10)
            self.assertLess(epochs[-1].means["loss"], epochs[0].means["loss"])
            self.error(snug.Error, lambda: session.step({k: v[:BATCH] for k, v in data.items()}), "quadrant", "2")
        with snug.Session(network.with_classes(7), batch=BATCH) as session:
            self.assertEqual(session.parameters["score.bias"].shape, (7,))
        for count in (0, -1, 10**8):
            self.error(snug.Error, lambda count=count: network.with_classes(count), f"expected 1 to 10000000, found {count}")
        self.error(snug.Error, lambda: network.with_classes(2**70), "64 bits")
        with self.assertRaises(TypeError):
            network.with_classes("three")
        none = snug.Network.from_text('name: "n" input { name: "x" } layer { name: "y" input: "x" relu {} } output: "y"')
        self.error(snug.Error, lambda: none.with_classes(3), "this network has none to set", "class scores")

    def test_the_same_seed_gives_the_same_epochs(self):
        def losses(**options):
            with snug.Session(quadrants(), batch=BATCH, seed=1) as session:
                return [epoch.means["loss"] for epoch in session.fit(points(100), epochs=3, **options)]
        self.assertEqual(losses(seed=4), losses(seed=4))
        self.assertNotEqual(losses(seed=4), losses(seed=5))
        self.assertNotEqual(losses(seed=4), losses(shuffle=False))

    def test_parameters_by_name(self):
        session = snug.Session(quadrants(), batch=BATCH)
        self.assertEqual(list(session.parameters), ["hidden.bias", "hidden.weight", "score.bias", "score.weight"])
        self.assertLess(set(session.parameters), set(session.variables))
        weight = session.parameters["hidden.weight"]
        self.assertEqual((weight.shape, weight.dtype, weight.is_view), ((32, 2), "float32", True))
        session.parameters["hidden.bias"] = [0.25] * 32
        self.assertEqual(session.parameters["hidden.bias"].tolist(), [0.25] * 32)
        before = weight.tolist()
        session.step(points())
        self.assertNotEqual(weight.tolist(), before)  # it is the session's own memory
        with self.assertRaises(KeyError):
            session.parameters["hidden.wieght"]
        self.error(snug.ShapeError, lambda: session.parameters.__setitem__("hidden.bias", [0.0] * 31), "(32,)", "(31,)")

    def test_outputs_are_copies_unless_a_view_is_asked_for(self):
        session = snug.Session(quadrants(), batch=BATCH)
        kept = session.step(points(seed=1))["score"]
        values = kept.tolist()
        view = session.step(points(seed=1), copy=False)["score"]
        address = view.address
        self.assertEqual(session.step(points(seed=2), copy=False)["score"].address, address)
        self.assertEqual(kept.tolist(), values)
        self.assertEqual(view.tolist(), session.output("score").tolist())
        self.assertEqual(session.fetch("score", "float64").dtype, "float64")
        self.assertEqual(f"{session.fetch('loss'):.1f}", f"{float(session.fetch('loss')):.1f}")

    def test_inputs_may_be_filled_in_place(self):
        session, other = (snug.Session(quadrants(), batch=BATCH, seed=1) for _ in range(2))
        data = points()
        place = session.input("point")
        ctypes.memmove(place.address, bytes(data["point"]), place.nbytes)
        loss = session.step({"quadrant": data["quadrant"]})["loss"].item()
        self.assertEqual(loss, other.step(data)["loss"].item())

    def test_bound_values_are_used_where_they_are(self):
        point, score = snug.empty((BATCH, 2)), snug.empty((BATCH, 4))
        data = points()
        ctypes.memmove(point.address, bytes(data["point"]), point.nbytes)
        session = snug.Session(quadrants(), batch=BATCH, seed=1, bound=["point", "score"])
        outputs = session.step({"point": point, "quadrant": data["quadrant"], "score": score})
        self.assertIs(outputs["score"], score)
        other = snug.Session(quadrants(), batch=BATCH, seed=1)
        self.assertEqual(score.tolist(), other.step(data)["score"].tolist())
        again = session.step({"quadrant": data["quadrant"]})  # what is bound stays
        self.assertIs(again["score"], score)
        fresh = snug.Session(quadrants(), batch=BATCH, bound="score")
        self.error(snug.Error, lambda: fresh.step(data), 'found none for "score"')
        self.error(snug.DTypeError, lambda: fresh.bind("score", snug.empty((BATCH, 4), "float64")), "float32",
                   "float64")
        room = (ctypes.c_float * (4 * BATCH + 32))()
        skewed = 4 if ctypes.addressof(room) % 64 != 60 else 8
        off = memoryview((ctypes.c_float * (4 * BATCH)).from_buffer(room, skewed)).cast("B").cast("f", (BATCH, 4))
        self.error(snug.AlignmentError, lambda: fresh.bind("score", off), "multiple of 64", "snug.empty")
        self.error(snug.Error, lambda: fresh.bind("point", point), "not bound")


class MistakesTest(PackageTest):
    def setUp(self):
        super().setUp()
        self.session = snug.Session(quadrants(), batch=BATCH, seed=1)
        self.data = points()

    def test_of_the_model_file_come_with_their_place(self):
        wrong = QUADRANTS.replace("units: 32", 'units: "many"').replace("tanh {}", "tanhh {}")
        raised = self.error(snug.Error, lambda: snug.Network.from_text(wrong, "q.pbtxt"))
        self.assertRegex(str(raised), r"(?m)^q\.pbtxt:4:\d+: [\s\S]*^q\.pbtxt:5:\d+: ")
        self.assertEqual(raised.code, "INVALID_ARGUMENT")
        self.assertEqual(pickle.loads(pickle.dumps(raised)).code, raised.code)
        self.assertEqual(self.error(snug.Error, lambda: snug.Network("no.pbtxt"), "no.pbtxt").code, "NOT_FOUND")

    def test_of_arrays_each_have_an_exception_of_their_own(self):
        step = lambda **feeds: lambda: self.session.step({**self.data, **feeds})  # noqa: E731
        self.error(snug.ShapeError, step(point=snug.empty((BATCH, 3))), 'input "point"', "(16, 2)", "(16, 3)")
        self.error(snug.ShapeError, step(point=[[1.0, 2.0], [3.0]] * 8), "lists of one length")
        self.error(snug.DTypeError, step(quadrant=[0.5] * BATCH), 'input "quadrant"', "expected integers", "float64")
        self.error(snug.DTypeError, step(quadrant=memoryview(array.array("h", [0] * BATCH))), "'h'")
        self.error(snug.DTypeError, step(point="text"), "found str")
        self.error(snug.DTypeError, step(point=[["a", "b"]] * BATCH), "expected numbers, found str")
        self.error(snug.DTypeError, step(point=None), "found NoneType")
        wide = memoryview(array.array("f", [0.0] * 64)).cast("B").cast("f", (32, 2))
        self.error(snug.NotContiguousError, step(point=_Strided(wide, (BATCH, 2), (16, 4))), "strides (16, 4)")
        self.error(snug.DeviceError, step(point=_OnGpu()), "cuda")
        self.error(snug.Error, step(poitn=1), 'no input "poitn"; there are: point, quadrant')
        self.error(snug.Error, lambda: self.session.step({"point": self.data["point"]}), 'none for "quadrant"')
        self.assertEqual(self.session.steps, 0)
        # A mistake in one array has fed no other: the same session steps as if nothing had been.
        other = snug.Session(quadrants(), batch=BATCH, seed=1)
        self.assertEqual(train(self.session, 3), train(other, 3))

    def test_of_values_come_from_the_library(self):
        self.error(snug.Error, lambda: self.session.step({**self.data, "quadrant": [2**40] * BATCH}), "1099511627776")
        self.error(snug.Error, lambda: setattr(self.session, "learning_rate", -1), "found -1")

    def test_of_options(self):
        for options, expected in [({"threads": "two"}, "expected an integer, found a text"),
                                  ({"batch": 1.5}, "expected an integer"), ({"precision": "float8"}, "bfloat16"),
                                  ({"bacth": 3}, 'did you mean the option "batch"?'), ({"memory": "bets"}, "best"),
                                  ({"memory_limit": "8 gigs"}, "8GiB"), ({"seed": 2**70}, "64 bits"),
                                  ({"device": b"cpu"}, "expected a number or a text, found bytes")]:
            self.error(snug.Error, lambda options=options: snug.Session(quadrants(), **options), expected)
        limited = self.error(snug.Error, lambda: snug.Session(quadrants(), memory_limit=1000), "1000")
        self.assertEqual(limited.code, "RESOURCE_EXHAUSTED")
        with self.assertRaises(TypeError):
            snug.Session("models/mlp.pbtxt")

    def test_use_after_close(self):
        view = self.session.step(self.data, copy=False)["score"]
        values = view.tolist()
        parameters = self.session.parameters
        self.session.close()
        self.session.close()
        self.assertTrue(self.session.closed)
        for call in [lambda: self.session.step(self.data), lambda: self.session.steps, lambda: parameters["score.bias"],
                     lambda: self.session.save(self.folder), lambda: self.session.input("point"),
                     lambda: self.session.memory, lambda: self.session.fit(points(32))]:
            self.error(snug.ClosedError, call, "closed")
        self.assertEqual(view.tolist(), values)  # what is looked at stays
        repr(self.session)


class _Strided:
    def __init__(self, owner, shape, strides):
        address = ctypes.addressof(ctypes.c_char.from_buffer(owner))
        self.__array_interface__ = {"version": 3, "typestr": "<f4", "shape": shape, "strides": strides,
                                    "data": (address, False)}
        self.owner = owner


class _OnGpu:
    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **options):
        raise AssertionError("nobody may ask for it")


class ThreadsTest(PackageTest):
    def test_two_sessions_in_two_threads_train_at_once_and_alike(self):
        alone = train(snug.Session(quadrants(), batch=BATCH, seed=7), 50)
        losses, together = {}, threading.Barrier(2)

        def run(number):
            session = snug.Session(quadrants(), batch=BATCH, seed=7)
            together.wait()
            losses[number] = train(session, 50)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(losses, {0: alone, 1: alone})

    def test_the_interpreter_goes_on_while_a_step_runs(self):
        session, data = slow_session()
        inside = threading.Event()
        counted = []

        def run():
            inside.set()
            session.step(data)
            counted.append("done")

        thread = threading.Thread(target=run)
        thread.start()
        inside.wait()
        while thread.is_alive() and len(counted) < 1000:
            time.sleep(0.001)  # gives the other thread its turn
            if not counted or counted[-1] != "done":
                counted.append("here")
        thread.join()
        self.assertGreater(counted.index("done"), 5)

    def test_a_session_in_two_threads_at_once_is_an_error(self):
        session, data = slow_session()
        thread = threading.Thread(target=session.step, args=(data,))
        thread.start()
        while not session._state.active:
            time.sleep(0)
        for call in (lambda: session.step(data), lambda: session.steps, session.close, lambda: session.parameters):
            self.error(snug.BusyError, call, "another thread")
        thread.join()
        self.assertEqual(session.steps, 1)

    def test_the_handler_of_a_signal_cannot_use_it_within_a_call(self):
        session, data = slow_session()
        errors = []

        def handle(number, frame):
            try:
                session.step(data)
            except snug.BusyError as busy:
                errors.append(str(busy))

        before = signal.signal(signal.SIGUSR1, handle)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

        def kill():
            while not session._state.stepping:
                time.sleep(0)
            os.kill(os.getpid(), signal.SIGUSR1)

        thread = threading.Thread(target=kill)
        thread.start()
        session.step(data)
        thread.join()
        self.assertEqual(session.steps, 1)
        self.assertIn("within it", errors[0])

    def test_a_callback_may_use_the_session(self):
        session = snug.Session(quadrants(), batch=BATCH)
        paths = []
        session.fit(points(32), on_step=lambda step, outputs: paths.append(session.save(self.folder)))
        self.assertEqual(len(paths), 2)


def slow_session():
    from package import SLOW, SLOW_BATCH, SLOW_UNITS
    session = snug.Session(snug.Network.from_text(SLOW), batch=SLOW_BATCH)
    zeros = memoryview(bytes(4 * SLOW_BATCH * SLOW_UNITS)).cast("f", (SLOW_BATCH, SLOW_UNITS))
    return session, {"x": zeros, "t": zeros}


class MemoryTest(PackageTest):
    def test_it_does_not_grow_over_a_thousand_steps(self):
        session = snug.Session(quadrants(), batch=BATCH)
        data = points()

        def steps(count):
            for _ in range(count):
                session.step(data)["score"].__dlpack__()
                session.step(data, copy=False)
                session.parameters["score.bias"] = session.parameters["score.bias"]
                try:
                    session.step({**data, "quadrant": [2**40] * BATCH})
                except snug.Error:
                    pass
        steps(100)
        gc.collect()
        before = resident_bytes()
        steps(1000)
        gc.collect()
        self.assertLess(resident_bytes() - before, 1 << 20)

    def test_sessions_go_with_their_last_user_and_cycles_with_the_collector(self):
        gc.disable()
        self.addCleanup(gc.enable)
        session = snug.Session(quadrants(), batch=BATCH)
        state = weakref.ref(session._state)
        session.step(points())
        del session
        self.assertIsNone(state())  # no cycle of ours
        session = snug.Session(quadrants(), batch=BATCH, evaluation_batch=4)
        session.itself = session
        state = weakref.ref(session._state)
        del session
        self.assertIsNotNone(state())
        gc.collect()
        self.assertIsNone(state())

    def test_a_hundred_sessions_leave_no_memory_behind(self):
        def make(count):
            for _ in range(count):
                session = snug.Session(quadrants(), batch=4096)
                session.step(points(4096), copy=False)["score"].__dlpack__()
        make(10)
        before = resident_bytes()
        make(100)
        self.assertLess(resident_bytes() - before, 8 << 20)


class ProcessTest(PackageTest):
    def test_a_fork_cannot_use_the_session_but_may_have_its_own(self):
        session = snug.Session(quadrants(), batch=BATCH, seed=2)
        train(session, 2)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                try:
                    session.step(points())
                except snug.ProcessError as refused:
                    losses = train(snug.Session(quadrants(), batch=BATCH, seed=2), 2)
                    os.write(write, struct.pack("2d", *losses) + str(refused).encode())
                    del session
                    gc.collect()
                    code = 0
            finally:
                os._exit(code)
        os.close(write)
        answer = b""
        while True:
            part = os.read(read, 4096)
            if not part:
                break
            answer += part
        os.close(read)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIn(b"fork", answer[16:])
        again = snug.Session(quadrants(), batch=BATCH, seed=2)
        self.assertEqual(list(struct.unpack("2d", answer[:16])), train(again, 2))
        train(session, 1)

    def test_a_program_may_end_in_the_middle_of_everything(self):
        program = """
import sys, threading, snug
sys.path.insert(0, %r)
from session_test import slow_session
from package import points, quadrants
session, data = slow_session()
begun = threading.Event()
def run():
    begun.set()
    while True: session.step(data)
threading.Thread(target=run, daemon=True).start()
begun.wait()
kept = snug.Session(quadrants(), batch=16)
kept.capsule = kept.step(points(), copy=False)["score"].__dlpack__()
print("ends")
""" % os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ends\n", ""))


if __name__ == "__main__":
    unittest.main()
