"""`snug watch`: the page in a real browser while a training runs, what its events add up to, and a server that bears
whoever connects.

Where SNUG_SCREENSHOTS names a folder, what the window showed is left there as PNG files.
"""

import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import resource
import signal
import socket
import subprocess
import time
import unittest

import browser
from snug import BINARY, ROOT, SnugTest

MLP = "models/mlp.pbtxt"
PATIENCE = 60  # seconds, for what takes a fraction of one unless the machine is very busy


def environment():
    return {**os.environ, "OMP_WAIT_POLICY": "passive"}


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: not after {PATIENCE} s")


def step_line(step, loss=1.0, kind="step", **more):
    return json.dumps({"kind": kind, "step": step, "loss": loss, "epoch": 0, "learning_rate": 0.1, "seconds": 0.01, **more}) + "\n"


def flowers(step, rose=(5, 1), violet=(2, 4)):
    """A confusion.json of two classes: for each, how many of its rows were taken for the first and for the second."""
    right = rose[0] + violet[1]
    return json.dumps({
        "step": step, "scores": "out", "labels": "kind", "rows": sum(rose) + sum(violet), "right": right, "ignored": 0, "unpredicted": 0,
        "classes": 2, "occurring": 2, "each": [
            {"class": 0, "name": "rose", "rows": sum(rose), "predicted": rose[0] + violet[0], "right": rose[0]},
            {"class": 1, "name": "violet", "rows": sum(violet), "predicted": rose[1] + violet[1], "right": violet[1]}],
        "confusions": [cell for cell in ([0, 1, rose[1]], [1, 0, violet[0]]) if cell[2]]})


class Watching(SnugTest):
    def watch(self, folder, *flags):
        """The process, and the port that it listens on."""
        process = subprocess.Popen([BINARY, "watch", str(folder), *flags], cwd=ROOT, env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        self.assertTrue(found, line + (process.stderr.read() if not found else ""))
        return process, int(found[1])

    def end(self, process, signal_number=signal.SIGTERM):
        if process.poll() is None:
            process.send_signal(signal_number)
            process.wait(timeout=PATIENCE)
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()

    def train(self, output, *flags):
        process = subprocess.Popen(
            [BINARY, "train", MLP, "--learning-rate=0.05", "--threads=1", "--data-digits-samples=6400", "--evaluate-every=100",
             "--evaluate-batches=2", f"--output={output}", *flags],
            cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        return process


@unittest.skipIf(browser.MISSING, browser.MISSING)
class WatchPageTest(Watching):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def tearDown(self):
        folder = os.environ.get("SNUG_SCREENSHOTS")
        if folder:
            (pathlib.Path(folder) / f"{self._testMethodName}.png").write_bytes(self.browser.screenshot())
        self.assertEqual(self.browser.complaints(), [])
        self.browser.open("about:blank")  # which asks no server that is about to end

    def state(self):
        return self.browser.run("return document.getElementById('state').textContent")

    def text(self):
        return self.browser.run("return document.body.innerText").lower()

    def drawn(self, name):
        """How many points the curve of this name has, on the chart of the loss."""
        return self.browser.run("""
            const chart = charts.get("loss");
            if (!chart) return 0;
            const paths = [...chart.box.querySelectorAll("path.chart-curve")].filter(p => p.dataset.name === arguments[0]);
            return paths.length ? paths[paths.length - 1].getAttribute("d").split(/[ML]/).length - 1 : 0;""", name)

    def step(self):
        return self.browser.run("return run ? run.step : 0")

    def test_the_curve_grows_while_a_training_runs(self):
        run = self.folder / "runs/mlp"
        _, port = self.watch(run)
        self.browser.open(f"http://127.0.0.1:{port}/")
        wait_until(lambda: self.state() == "waiting", "a page that waits for a training")
        self.assertIn("no training has begun here yet", self.text())

        training = self.train(run, "--steps=1000000")
        wait_until(lambda: self.state() == "running", "a training that runs")
        first = wait_until(lambda: self.drawn("training"), "a curve")
        first_step = self.step()
        wait_until(lambda: self.step() > first_step and self.drawn("training") != first, "a curve that grows")
        wait_until(lambda: self.drawn("evaluation") >= 2, "evaluations")
        for said in ("loss", "accuracy", "learning rate", "samples a second", "waited for data", "memory", "--batch"):
            self.assertIn(said, self.text() + self.browser.run("return document.querySelector('#options').textContent"))
        self.assertGreater(wait_until(lambda: self.browser.run("return document.getElementById('plan').naturalWidth"), "the picture of the plan"), 100)

        # What was taken for what, of ever later evaluations; the digits that are right lie on the diagonal.
        judged = "return confusion ? confusion.step : 0"
        first_judged = wait_until(lambda: self.browser.run(judged), "a confusion matrix")
        wait_until(lambda: self.browser.run(judged) > first_judged, "a later one")
        shown = self.browser.run("return document.getElementById('confusionnote').textContent")
        self.assertRegex(shown, r"In the evaluation after step [\d,]+00: \d+ of 128 rows right")
        self.assertEqual(self.browser.run("return [matrix.labels.length, matrix.name(7)]"), [10, "7"])
        self.assertGreater(self.drawn_matrix()["green"], 500)

        training.send_signal(signal.SIGINT)
        self.assertEqual(training.wait(timeout=PATIENCE), 4)
        wait_until(lambda: self.state() == "stopped", "that it was stopped")
        stopped_at = self.step()
        self.assertIn("--resume", self.text())

        last = stopped_at + 40
        self.assertEqual(self.train(run, f"--steps={last}", "--resume").wait(timeout=PATIENCE), 0)
        wait_until(lambda: self.state() == "done" and self.step() == last, "the end of a training that went on")
        steps = sum(1 for line in (run / "metrics.jsonl").read_text().splitlines() if json.loads(line)["kind"] == "step")
        self.assertEqual(steps, last)
        wait_until(lambda: self.browser.run(judged) == last, "what the last evaluation took for what")

    def drawn_matrix(self):
        """How many pixels of the matrix are greenish and reddish."""
        return self.browser.run("""
            // Read from a copy: a canvas that is read often is drawn otherwise, and Chromium says so.
            const canvas = document.getElementById("matrix"), copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
            copy.drawImage(canvas, 0, 0);
            const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
            let green = 0, red = 0;
            for (let i = 0; i < pixels.length; i += 4) {
              if (!pixels[i + 3]) continue;
              if (pixels[i + 1] > pixels[i] + 60) ++green;
              if (pixels[i] > pixels[i + 1] + 60) ++red;
            }
            return { green, red };""")

    def test_what_was_taken_for_what_is_live(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "metrics.jsonl").write_text(step_line(1))
        (run / "confusion.json").write_text(flowers(1))
        _, port = self.watch(run)
        self.browser.open(f"http://127.0.0.1:{port}/")
        note = lambda: self.browser.run("return document.getElementById('confusionnote').textContent")
        wait_until(lambda: "after step 1: 9 of 12 rows right" in note(), "the matrix")
        self.assertGreater(self.drawn_matrix()["red"], 200)
        listed = "return [...document.querySelectorAll('#confused tbody tr')].map(r => [...r.children].map(c => c.textContent))"
        self.assertEqual(self.browser.run(listed), [["rose", "violet", "1", "16.7 %"], ["violet", "rose", "2", "33.3 %"]])
        tip = """const box = document.getElementById("matrix").getBoundingClientRect();
            matrix.point({ clientX: box.left + matrix.left + matrix.cell * arguments[0], clientY: box.top + matrix.above + matrix.cell * arguments[1] });
            return document.getElementById("tip").textContent;"""
        self.assertEqual(self.browser.run(tip, 0.5, 1.5), "violet was taken for rose 2 times, 33.3 % of its 6 rows")
        self.assertEqual(self.browser.run(tip, 0.5, 0.5), "rose was recognised 5 times, 83.3 % of its 6 rows")

        (run / "new").write_text(flowers(2, (6, 0), (0, 6)))
        (run / "new").rename(run / "confusion.json")
        wait_until(lambda: "after step 2: 12 of 12 rows right" in note(), "the next evaluation's")
        self.assertEqual(self.browser.run(listed), [])
        self.assertEqual(self.drawn_matrix()["red"], 0)
        (run / "confusion.json").write_text('{"step": 3, "missing": "the labels are no classes"}')
        wait_until(lambda: "after step 3 cannot be told: the labels are no classes" in note(), "why there is none")
        (run / "confusion.json").write_text('{"each": [{"class": 9}]}')
        wait_until(lambda: "confusion.json: each: expected ascending classes below 0, found 9" in self.text(), "what is wrong with it")
        self.assertFalse(self.browser.run("return document.getElementById('confusion').offsetHeight"))

    def test_many_classes_are_the_most_confused_ones(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "metrics.jsonl").write_text(step_line(7))
        each = [{"class": 3 * i, "name": f"class {i}", "rows": 10, "predicted": 10, "right": 8} for i in range(100)]
        cells = [[3 * i, 3 * ((i + 1) % 100), 2] for i in range(99)] + [[297, None, 2]]
        (run / "confusion.json").write_text(json.dumps({
            "step": 7, "rows": 5000, "right": 4000, "unpredicted": 2, "classes": 1000, "occurring": 500, "each": each, "confusions": cells}))
        _, port = self.watch(run)
        self.browser.open(f"http://127.0.0.1:{port}/")
        note = lambda: self.browser.run("return document.getElementById('confusionnote').textContent")
        wait_until(lambda: "the 100 classes that are confused most, of 500 that occur" in note(), "the matrix")
        self.assertIn("2 without a prediction", note())
        self.assertEqual(self.browser.run("return [matrix.labels.length, matrix.across.length]"), [100, 101])
        self.assertGreater(self.drawn_matrix()["green"], 1000)

    def test_a_training_that_is_killed_is_gone(self):
        run = self.folder / "killed"
        _, port = self.watch(run)
        self.browser.open(f"http://127.0.0.1:{port}/")
        training = self.train(run, "--steps=1000000")
        wait_until(lambda: self.state() == "running", "a training that runs")
        training.kill()
        wait_until(lambda: self.state() == "gone", "that it is gone")
        self.assertIn("was killed", self.text())

    def test_a_training_that_stands_still_is_stalled(self):
        run = self.folder / "stopped"
        _, port = self.watch(run, "--stalled-after=0.5")
        self.browser.open(f"http://127.0.0.1:{port}/")
        training = self.train(run, "--steps=1000000", "--evaluate-every=0")
        wait_until(lambda: self.state() == "running", "a training that runs")
        training.send_signal(signal.SIGSTOP)
        wait_until(lambda: self.state() == "stalled", "that it stands still")
        training.send_signal(signal.SIGCONT)
        wait_until(lambda: self.state() == "running", "that it goes on")
        training.kill()

    def test_a_loss_that_is_not_finite_is_told(self):
        run = self.folder / "failed"
        _, port = self.watch(run)
        self.browser.open(f"http://127.0.0.1:{port}/")
        self.assertEqual(self.train(run, "--steps=500", "--learning-rate=1e9").wait(timeout=PATIENCE), 1)
        wait_until(lambda: self.state() == "failed", "that it failed")
        self.assertIn("the loss is not finite", self.text())

    def test_names_are_text_and_nothing_else(self):
        run = self.folder / "<img src=x onerror=document.title=1>"
        run.mkdir()
        hostile = "</script><script>document.title='taken'</script>"
        (run / "run.json").write_text(json.dumps({"network": hostile, "state": "failed", "error": hostile, "batch": 1, "steps": 9, "options": {hostile: hostile}}))
        (run / "metrics.jsonl").write_text(step_line(1, **{hostile: 3}) + step_line(2, **{hostile: 4}))
        _, port = self.watch(run)
        self.browser.open(f"http://127.0.0.1:{port}/")
        wait_until(lambda: self.state() == "failed", "a run that failed")
        self.assertIn(hostile, self.browser.run("return document.body.innerText"))
        self.assertNotEqual(self.browser.run("return document.title"), "taken")
        self.assertEqual(self.browser.run("return document.images.length"), 1)  # the picture of the plan

    def test_what_never_changes_is_drawn_as_a_line(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "run.json").write_text("[[[[")
        (run / "metrics.jsonl").write_text("".join(step_line(i, 0.94) for i in range(1, 9)))
        _, port = self.watch(run)
        self.browser.open(f"http://127.0.0.1:{port}/")
        wait_until(lambda: self.drawn("training") == 8, "the curve")
        self.assertIn("run.json: byte 0: expected an object", self.browser.run("return document.getElementById('why').textContent"))
        self.assertNotIn("of a version", self.text())

    def test_the_page_shows_what_is_under_the_mouse_and_other_axes(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "metrics.jsonl").write_text("".join(step_line(i, 100 / i) for i in range(1, 101)))
        _, port = self.watch(run)
        self.browser.open(f"http://127.0.0.1:{port}/")
        wait_until(lambda: self.drawn("training") == 100, "the curve")
        button = "return charts.get('loss').button.textContent"
        self.assertEqual(self.browser.run(button), "logarithmic")
        self.browser.run("charts.get('loss').button.click()")
        self.assertEqual(self.browser.run(button), "linear")
        tip = self.browser.run("""
            const chart = charts.get("loss"), box = chart.plot.getBoundingClientRect();
            chart.plot.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + chart.at.X(50), clientY: box.top + 50, bubbles: true }));
            return chart.tip.textContent;""")
        self.assertIn("training, single steps at 50: 2", tip)


class WatchEventsTest(Watching):
    """What a client puts together from the events is what the file has, whatever was done to the file."""

    def events(self, port):
        connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.makefile("rb")

    def follow(self, stream, curves, until):
        """Takes events into `curves` until one satisfies."""
        while True:
            line = stream.readline()
            self.assertNotEqual(line, b"", "the stream ended")
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            if event["reset"]:
                curves.clear()
            for curve in event["curves"]:
                points = curves.setdefault((curve["kind"], curve["metric"]), [])
                self.assertLessEqual(curve["from"], len(points))
                points[curve["from"]:] = curve["points"]
            if until(event):
                return event

    def test_events_add_up_to_the_file(self):
        run = self.folder / "run"
        run.mkdir()
        _, port = self.watch(run)
        metrics = run / "metrics.jsonl"
        stream, curves, choose = self.events(port), {}, random.Random(4)
        content, step = "", 0
        for _ in range(12):
            if choose.random() < 0.3 and content:
                content = "".join(content.splitlines(keepends=True)[: choose.randrange(content.count("\n"))])
                (run / "new").write_text(content)
                (run / "new").rename(metrics)
            new = ""
            for _ in range(choose.randrange(1, 900)):
                step += 1
                new += step_line(step, round(choose.random(), 3))
            cut = choose.randrange(len(new))
            with metrics.open("a") as file:
                file.write(new[:cut])
                file.flush()
                time.sleep(choose.choice([0, 0.3]))
                file.write(new[cut:])
            content += new
            self.follow(stream, curves, lambda event: event["step"] == step)
            losses = [json.loads(line)["loss"] for line in content.splitlines()]
            points = curves["training", "loss"]
            self.assertEqual(points[-1][0], step)
            if len(losses) <= 1000:
                self.assertEqual([point[2] for point in points], losses)
            self.assertLessEqual(len(points), 1000)
            fresh = {}
            self.follow(self.events(port), fresh, lambda event: True)
            self.assertEqual(curves, fresh)

    def test_what_is_not_finite_is_a_gap(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "metrics.jsonl").write_text(step_line(1) + step_line(2, None) + "torn" )
        _, port = self.watch(run)
        curves = {}
        event = self.follow(self.events(port), curves, lambda event: event["step"] == 2)
        self.assertEqual([point[2] for point in curves["training", "loss"]], [1.0, None])
        self.assertEqual(event["unreadable"], 0)  # the torn line may yet get its end


    def test_options_are_sent_when_they_are_others(self):
        run = self.folder / "run"
        run.mkdir()
        record = {"network": "n", "state": "done", "options": {"batch": "8"}}
        (run / "run.json").write_text(json.dumps(record))
        (run / "metrics.jsonl").write_text(step_line(1))
        _, port = self.watch(run)
        stream = self.events(port)
        event = self.follow(stream, {}, lambda event: event["step"] == 1)
        self.assertEqual(event["options"], [["batch", "8"]])
        with (run / "metrics.jsonl").open("a") as file:
            file.write(step_line(2))
        self.assertNotIn("options", self.follow(stream, {("training", "loss"): [0], ("rate", ""): [0], ("speed", ""): [0]},
                                                lambda event: event["step"] == 2))
        record["options"]["batch"] = "16"
        (run / "new").write_text(json.dumps(record))
        (run / "new").rename(run / "run.json")
        self.follow(stream, {}, lambda event: event.get("options") == [["batch", "16"]])

    def test_a_confusion_is_sent_when_it_is_another(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "metrics.jsonl").write_text(step_line(1))
        _, port = self.watch(run)
        stream, curves = self.events(port), {}
        self.assertIsNone(self.follow(stream, curves, lambda event: event["step"] == 1)["confusion"])
        (run / "confusion.json").write_text(flowers(1))
        event = self.follow(stream, curves, lambda event: event.get("confusion"))
        self.assertEqual(event["confusion"], json.loads(flowers(1)))
        with (run / "metrics.jsonl").open("a") as file:
            file.write(step_line(2))
        self.assertNotIn("confusion", self.follow(stream, curves, lambda event: event["step"] == 2))
        self.assertEqual(self.follow(self.events(port), {}, lambda event: True)["confusion"], json.loads(flowers(1)))
        (run / "confusion.json").unlink()
        self.follow(stream, curves, lambda event: event.get("confusion", 0) is None)

    def test_a_record_that_cannot_be_read_is_told(self):
        run = self.folder / "run"
        run.mkdir()
        (run / "run.json").write_text("[[[[")
        (run / "metrics.jsonl").write_text(step_line(1))
        _, port = self.watch(run)
        event = self.follow(self.events(port), {}, lambda event: event["step"] == 1)
        self.assertIn("run.json: byte 0: expected an object", event["record_problem"])
        self.assertEqual(event["problem"], "")


class WatchServerTest(Watching):
    def setUp(self):
        super().setUp()
        (self.folder / "run").mkdir()
        (self.folder / "run/metrics.jsonl").write_text(step_line(1))
        (self.folder / "secret").write_text("secret")
        self.process, self.port = self.watch(self.folder / "run")

    def ask(self, path="/", host="localhost", method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if host is not None:
                connection.putheader("Host", host)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers

    def raw(self, data, read=True):
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(data)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while read and (got := connection.recv(65536)):
                    answer += got
            return answer

    def assert_serves(self):
        status, body, _ = self.ask()
        self.assertEqual((status, b"<!DOCTYPE html>" in body), (200, True))
        self.assertIsNone(self.process.poll())

    def test_it_has_fixed_paths_and_no_others(self):
        self.assert_serves()
        for path in ("/metrics.jsonl", "/run.json", "/../secret", "/%2e%2e/secret", "/..%2fsecret", "/memory.html/../../secret",
                     f"/{self.folder}/secret", "/memory.svg/", "//memory.svg", "/events/x"):
            status, body, _ = self.ask(path)
            self.assertEqual(status, 404, path)
            self.assertNotIn(b"secret", body.replace(path.encode(), b""))
        self.assertEqual(self.ask("/memory.html")[0], 404)  # the run has none
        (self.folder / "run/memory.html").write_text("<script>1</script>")
        status, body, headers = self.ask("/memory.html")
        self.assertEqual((status, body), (200, b"<script>1</script>"))
        self.assertIn("sandbox", headers["Content-Security-Policy"])

    def test_no_link_leads_out_of_the_run_folder(self):
        for name in ("memory.html", "memory.svg"):
            (self.folder / "run" / name).symlink_to(self.folder / "secret")
            status, body, _ = self.ask(f"/{name}")
            self.assertEqual(status, 404)
            self.assertIn(b"expected a file, found a link", body)

    def test_only_this_machine_asks(self):
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1.evil.example"):
            self.assertEqual(self.ask(host=host)[0], 421)
        self.assertEqual(self.ask(host=None)[0], 400)
        for host in (f"127.0.0.1:{self.port}", "localhost", "LocalHost:9"):
            self.assertEqual(self.ask(host=host)[0], 200)
        listening = []  # the addresses of this port, as the system writes them
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for row in pathlib.Path(table).read_text().splitlines()[1:] if os.path.exists(table) else []:
                address, port = row.split()[1].split(":")
                if int(port, 16) == self.port and row.split()[3] == "0A":
                    listening.append(address)
        self.assertEqual(listening, ["0100007F"])

    def test_no_page_needs_anything_from_elsewhere(self):
        _, body, headers = self.ask()
        page = body.decode().replace("http://www.w3.org/2000/svg", "")
        self.assertEqual(re.findall(r"https?://[^\s\"'<]+|src=\"[^\"]+\"", page), [])
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])

    def test_garbage_does_no_harm(self):
        chance = random.Random(8)
        for _ in range(300):
            data = chance.choice([
                lambda: chance.randbytes(chance.randrange(1, 3000)),
                lambda: b"GET / HTTP/1.1\r\nHost: localhost\r\n" + chance.randbytes(50) + b"\r\n\r\n",
                lambda: b"GET /" + bytes(chance.randrange(33, 127) for _ in range(chance.randrange(9000))) + b" HTTP/1.1\r\n\r\n",
                lambda: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[: chance.randrange(40)] + b"\n\n",
            ])()
            answer = self.raw(data + b"\r\n\r\n")
            self.assertRegex(answer[:13], rb"^(HTTP/1\.1 [245]\d\d )?$")
        self.assert_serves()

    def test_huge_heads_are_refused_and_take_no_memory(self):
        before = self.resident()
        for head in (b"GET /" + b"a" * (1 << 24), b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * (1 << 21)):
            answer = self.raw(head)
            self.assertIn(answer.split(b"\r\n")[0], (b"HTTP/1.1 431 Request Header Fields Too Large", b""))
        self.assertLess(self.resident() - before, 8 << 20)
        self.assert_serves()

    def resident(self):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) * 1024

    def test_a_thousand_connections_keep_nobody_out(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 1200:
            self.skipTest(f"SKIPPED: a process may have only {hard} files open here")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        before = self.resident()
        with contextlib.ExitStack() as stack:
            for i in range(1000):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    connection.sendall([b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n"][i % 3])
            self.assert_serves()
        self.assertLess(self.resident() - before, 16 << 20)
        self.assert_serves()

    def test_who_reads_slowly_keeps_nobody_waiting(self):
        run = self.folder / "run"
        (run / "memory.html").write_bytes(b"x" * (16 << 20))
        with contextlib.ExitStack() as stack:
            for path in (b"/memory.html", b"/events") * 10:
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE))
                connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with (run / "metrics.jsonl").open("a") as file:
                for step in range(2, 20000):
                    file.write(step_line(step, step % 17))
            begin = time.monotonic()
            for _ in range(20):
                self.assert_serves()
            self.assertLess(time.monotonic() - begin, PATIENCE / 2)
        self.assertLess(self.resident(), 300 << 20)

    def test_a_signal_ends_it_well(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process, port = self.watch(self.folder / "run")
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as stream:
                stream.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(b"200 OK", stream.recv(65536))
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=PATIENCE), 0)
            self.assertEqual(process.stderr.read(), "")

    def test_a_port_that_is_taken_is_an_error(self):
        self.assertEqual(self.error("watch", self.folder / "run", f"--port={self.port}", code=1),
                         f"port {self.port} of 127.0.0.1: another program has it; --port=0 takes any that is free\n")


class WatchMessagesTest(SnugTest):
    def test_what_is_wrong_is_said(self):
        self.assertIn("expected one argument, a run folder, found 0", self.error("watch"))
        self.assertIn('--port: expected a whole number from 0 to 65535, found "70000"', self.error("watch", "run", "--port=70000"))
        self.assertIn("--stalled-after: expected seconds above 0, found -1", self.error("watch", "run", "--stalled-after=-1"))
        path = self.write("file", "")
        self.assertIn(f"{path}: expected a run folder, as `snug train` leaves in runs/, found a file", self.error("watch", path))


if __name__ == "__main__":
    unittest.main()
