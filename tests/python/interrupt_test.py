"""Ctrl-C: in a step, in a training, in a compile. What is left is a session that can be used."""

import ctypes
import os
import random
import signal
import threading
import time
import unittest

import snug
from package import SLOW, SLOW_UNITS, PackageTest, points, quadrants
from session_test import slow_session
from snug._library import lib


class InterruptTest(PackageTest):
    def setUp(self):
        super().setUp()
        # A process in the background has it ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

    def interrupt_when(self, begun):
        """Ctrl-C as soon as `begun` says so, from another thread."""
        def run():
            while not begun():
                pass
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)

    def bits(self, session):
        return [bytes(ctypes.string_at(tensor.address, tensor.nbytes)) for tensor in session.variables.values()]

    def test_a_step_that_is_asked_to_stop_has_changed_nothing(self):
        for engine, streams in [("replay", 1), ("replay", 2), ("serial", 1), ("dynamic", 2)]:
            with self.subTest(engine=engine, streams=streams):
                session = snug.Session(quadrants(), batch=16, seed=1, engine=engine, streams=streams)
                session.step(points())
                before = self.bits(session)
                session._seconds = 0  # steps on this thread, which takes no wish to stop back
                lib.snug_stop(session._state.handle, 1)
                stopped = self.error(snug.Error, lambda: session.step(points()), "stopped, as was asked")
                self.assertEqual(stopped.code, "CANCELLED")
                self.assertEqual(self.bits(session), before)
                lib.snug_stop(session._state.handle, 0)
                session.step(points())
                self.assertEqual(session.steps, 2)
                twin = snug.Session(quadrants(), batch=16, seed=1, engine=engine, streams=streams)
                twin.step(points())
                twin.step(points())
                self.assertEqual(self.bits(session), self.bits(twin))

    def test_a_stopped_step_needs_its_inputs_anew(self):
        session = snug.Session(quadrants(), batch=16, keep_inputs=True)
        session.step(points())
        session.step()
        session._seconds = 0  # steps on this thread, which takes no wish to stop back
        lib.snug_stop(session._state.handle, 1)
        self.error(snug.Error, lambda: session.step(), "stopped")
        lib.snug_stop(session._state.handle, 0)
        self.error(snug.Error, lambda: session.step(), "found none for")
        session.step(points())

    def test_during_a_step(self):
        session, data = slow_session()
        twin, _ = slow_session()
        for other in (session, twin):
            other.step(data)
        states = [self.bits(twin)]
        twin.step(data)
        states.append(self.bits(twin))
        self.interrupt_when(lambda: session._state.helper.busy)
        with self.assertRaises(KeyboardInterrupt):
            session.step(data)
        # It had changed nothing, or it ran to its end.
        self.assertEqual(self.bits(session), states[session.steps - 1])
        while session.steps < 2:
            session.step(data)
        self.assertEqual(self.bits(session), states[1])

    def test_during_a_training(self):
        session = snug.Session(quadrants(), batch=16, seed=1)
        seen = []
        self.interrupt_when(lambda: len(seen) > 50)
        with self.assertRaises(KeyboardInterrupt):
            session.fit(points(1600), epochs=10**6, on_step=lambda step, outputs: seen.append(step))
        self.assertGreater(session.steps, 50)
        self.assertLessEqual(session.steps - seen[-1], 1)
        session.step(points())
        session.save(self.folder)

    def test_again_and_again(self):
        """Wherever in a short step the handler runs, no Ctrl-C is lost, and the session goes on."""
        session, twin = (snug.Session(quadrants(), batch=16, seed=1) for _ in range(2))
        data, numbers = points(), random.Random(1)
        for _ in range(30):
            begun = threading.Event()

            def run(begun, seconds):
                begun.wait()
                time.sleep(seconds)
                os.kill(os.getpid(), signal.SIGINT)
            thread = threading.Thread(target=run, args=(begun, numbers.uniform(0, 0.005)))
            thread.start()
            end = time.monotonic() + 20
            with self.assertRaises(KeyboardInterrupt):
                while time.monotonic() < end:
                    session.step(data)
                    begun.set()
            thread.join()
        self.assertGreaterEqual(session.steps, 30)
        while twin.steps < session.steps:
            twin.step(data)
        self.assertEqual(self.bits(session), self.bits(twin))

    def test_another_handler_of_a_signal_does_not_end_a_step(self):
        session, data = slow_session()
        handled = []
        before = signal.signal(signal.SIGUSR1, lambda number, frame: handled.append(number))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

        def run():
            while not session._state.helper.busy:
                pass
            os.kill(os.getpid(), signal.SIGUSR1)
        thread = threading.Thread(target=run)
        thread.start()
        session.step(data)
        thread.join()
        self.assertEqual(handled, [signal.SIGUSR1])
        self.assertEqual(session.steps, 1)

    def test_during_a_compile(self):
        network = snug.Network.from_text(SLOW)
        self.interrupt_when(lambda: any(thread.name == "snug-compile" for thread in threading.enumerate()))
        with self.assertRaises(KeyboardInterrupt):
            for _ in range(1000):
                snug.plan(network, batch=64)
        self.assertGreater(snug.plan(network, batch=64).total_bytes, 4 * 64 * SLOW_UNITS)


if __name__ == "__main__":
    unittest.main()
