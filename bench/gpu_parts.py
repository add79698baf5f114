"""The parts of bundle-run: each measures what is not noted yet and prints a table. What a part is, is its first line."""

import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from gpu_notes import HERE, NOT_INSTALLED, OutOfTime, document, output_folder, run, table

DEVICE = "cuda"  # bundle-run --device
WARM_UP = 3  # steps of ours that are left out: the first records the graph
FEW_STEPS = {"gpt2": 5}  # by model: how many are measured where 30 take too long


def snug(command, model, precision, *flags, device=None):
    """The words of a command of ours."""
    device = device or DEVICE
    words = [HERE / "snug", command, f"models/{model}.pbtxt", f"--device={device}", *flags]
    if precision == "tf32":
        return [*words, "--precision=float32"] + (["--tf32"] if device != "cpu" else [])
    return [*words, f"--precision={precision}"]


def ours(model, batch, precision, *extra):
    def measure(left):
        steps = FEW_STEPS.get(model, 30) + WARM_UP
        found = document([*snug("step", model, precision, f"--batch={batch}", "--keep-inputs", f"--steps={steps}",
                                "--json"), *extra], min(left, 150))
        if "error" in found:
            return found
        return {"seconds": statistics.median(found["seconds"][WARM_UP:]), "peak_bytes": found["measured_bytes"],
                "planned_bytes": found["planned_bytes"], "fallbacks": found["fallback_nodes"]}
    return measure


def torch(*words):
    return lambda left: document([sys.executable, HERE / "bench/torch_gpu_peer.py", *words, 3, f"--device={DEVICE}"],
                                 min(left, 400))


def rate(batch, found):
    return f"{batch / found['seconds']:.0f}" if "seconds" in found else "-"


def fallbacks(key, found):
    """Lines about nodes that a library did not serve, where it was to."""
    return [f"{key}: {one['library']} does not serve {one['node']} ({one['op']}), our own kernel does: {one['why']}"
            for one in found.get("fallbacks", [])]


MODES = ("eager", "compile", "graph", "autotune")  # of bench/torch_gpu_peer.py
LONGEST = {"snug": 100, "eager": 100, "graph": 100, "compile": 200, "autotune": 400}  # seconds, to compile, too


def compare(notes, part, models, modes=MODES):
    """Ours beside PyTorch, samples a second and peak MB: all models in one mode, then the next. What there is no time for
    is left out of the table."""
    found, out_of_time = {}, False
    for mode in ("snug", *modes):
        for model, batch, precision in models:
            key = f"{part}/{model}/{batch}/{precision}/"
            measure = ours(model, batch, precision) if mode == "snug" else torch(model, batch, precision, mode)
            try:
                found[key + mode] = notes.get(key + mode, LONGEST[mode], measure)
            except OutOfTime:
                out_of_time = True
    rows, lines = [], [f"{key}: {one['error']}" for key, one in found.items() if "error" in one]
    for model, batch, precision in models:
        key = f"{part}/{model}/{batch}/{precision}/"
        of = {mode: found.get(key + mode, {}) for mode in ("snug", *modes)}
        lines += fallbacks(key, of["snug"])
        times = {mode: one["seconds"] for mode, one in of.items() if "seconds" in one}
        best = min((seconds for mode, seconds in times.items() if mode != "snug"), default=None)
        ratio = f"{best / times['snug']:.2f}" if best and "snug" in times else "-"
        peak = lambda one: f"{one['peak_bytes'] * 1e-6:.0f}" if "peak_bytes" in one else "-"
        rows.append([model, batch, precision, *(rate(batch, one) for one in of.values()), ratio, peak(of["snug"]),
                     peak(of["eager"])])
    table(["model", "batch", "precision", "snug /s", *(f"{mode} /s" for mode in modes), "snug / best", "snug MB",
           "eager MB"], rows)
    print("\n".join(lines))
    if out_of_time:
        raise OutOfTime


def part_machine(notes):
    """what this machine is: snug doctor, nvidia-smi, PyTorch"""
    def look(left):
        code, out, err = run([HERE / "snug", "doctor"], 60)
        smi = run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], 60)
        version = run([sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda)"], 120)
        return {"date": str(datetime.date.today()), "commit": (HERE / "commit").read_text().strip(),
                "doctor": out or err, "nvidia-smi": smi[1] or smi[2], "torch": version[1] or version[2]}
    for name, text in notes.get("machine/all", 0, look).items():
        print(f"{name}: {text.strip()}")


# Models, their batch and precision, whose three ways to run a step are compared with each other and with the processor.
SMOKE = [("mlp", 64, "float32"), ("resnet18", 16, "float32"), ("gpt_small", 8, "float32"), ("mlp", 64, "bfloat16"),
         ("resnet18", 16, "bfloat16"), ("gpt_small", 8, "bfloat16")]
MAY_DIFFER = {"float32": 2e-3, "bfloat16": 5e-2}  # losses of four steps from the processor's, relatively


def ways():
    """Flags for how a step is run."""
    found = {"serial": ["--engine=serial"], "replay": ["--cuda-graph=off"], "graph": []}
    return found if DEVICE != "cpu" else {"serial": ["--engine=serial"], "replay": []}


def library_log(folder):
    """Lines that the libraries wrote there, alike ones once."""
    lines = {}
    for file in sorted(folder.glob("*.log")):
        for line in file.read_text(errors="replace").splitlines():
            if line.strip():
                lines.setdefault(re.sub(r"0x[0-9a-f]+|\d+", "#", line), line.strip()[:300])
    return list(lines.values())[:20]


def smoke(model, batch, precision, flags, device=None):
    def measure(left):
        with tempfile.TemporaryDirectory() as folder:
            logs = {"CUBLASLT_LOG_LEVEL": "1", "CUBLASLT_LOG_FILE": f"{folder}/cublaslt.log",
                    "CUDNN_LOGLEVEL_DBG": "2", "CUDNN_LOGDEST_DBG": f"{folder}/cudnn.log"}
            found = document(snug("step", model, precision, f"--batch={batch}", "--keep-inputs", "--steps=4", "--json",
                                  *flags, device=device), min(left, 120), logs)
            if "error" in found:
                return found
            return {"losses": found["losses"], "fallbacks": found["fallback_nodes"],
                    "planned_bytes": found["planned_bytes"], "peak_bytes": found["measured_bytes"],
                    "log": library_log(pathlib.Path(folder))}
    return measure


def part_smoke(notes):
    """first steps of mlp, resnet18, gpt_small: one op after the other, replayed, as a graph; losses beside the processor's"""
    rows, lines = [], []
    for model, batch, precision in SMOKE:
        key = f"smoke/{model}/{precision}/"
        expected = notes.get(key + "cpu", 60, smoke(model, batch, precision, [], "cpu"))
        of = {way: notes.get(key + way, 60, smoke(model, batch, precision, flags)) for way, flags in ways().items()}
        for way, one in {"cpu": expected, **of}.items():
            if "error" in one:
                lines.append(f"{key}{way}: {one['error']}")
            lines += fallbacks(key + way, one) + [f"{key}{way}: log: {line}" for line in one.get("log", [])]
        losses = {way: one["losses"] for way, one in of.items() if "losses" in one}
        same = "-" if len(losses) < 2 else "yes" if len({tuple(one) for one in losses.values()}) == 1 else "NO"
        off = max((abs(a - b) / abs(b) for one in losses.values() for a, b in zip(one, expected.get("losses", []))),
                  default=None)
        near = "-" if off is None else "yes" if off <= MAY_DIFFER[precision] else "NO"
        rows.append([model, precision, f"{len(losses)} of {len(of)}", same, near, "-" if off is None else f"{off:.1e}"])
    table(["model", "precision", "ways that ran", "same bits", "as the processor's", "off by"], rows)
    print("\n".join(lines))


# What comes first where time is short; everything else comes last.
TEST_ORDER = [r"CudaTraining|CudaTrainer", r"Fusion", r"(?:^|[./])(?:conv|dense|matmul|attention|batch_norm)"]


def test_names():
    """All tests of snug_gpu_test, most important first."""
    code, out, err = run([HERE / "snug_gpu_test", "--gtest_list_tests"], 60)
    if code != 0:
        raise RuntimeError(f"snug_gpu_test --gtest_list_tests: {(err or out).strip()[-200:]}")
    names, suite = [], ""
    for line in out.splitlines():
        if not line.startswith(" "):
            suite = line.split("#")[0].strip() if line.endswith(".") or "#" in line else ""
        elif suite:
            names.append(suite + line.split("#")[0].strip())
    return sorted(names, key=lambda name: next((i for i, pattern in enumerate(TEST_ORDER) if re.search(pattern, name)),
                                               len(TEST_ORDER)))


def tested(names):
    """What a process of snug_gpu_test says of these tests."""
    def measure(left):
        found = {"passed": [], "skipped": [], "failed": [], "refused": {}}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "tests.json"
            code, out, err = run([HERE / "snug_gpu_test", "--gtest_filter=" + ":".join(names),
                                  f"--gtest_output=json:{file}"], left)
            if not file.exists():
                return {**found, "failed": names, "output": (out + err)[-2000:]}
            suites = json.loads(file.read_text())["testsuites"]
        for one in suites:
            for test in one["testsuite"]:
                kind = "failed" if test.get("failures") else "skipped" if test["result"] == "SKIPPED" else "passed"
                found[kind].append(one["name"] + "." + test["name"])
                if "refused" in test:
                    found["refused"][one["name"] + "." + test["name"]] = test["refused"]
        return {**found, "output": out[-4000:] if found["failed"] else ""}
    return measure


def part_tests(notes):
    """snug_gpu_test, test by test: CUDA against CPU, same bits however a step is run, plan == measured"""
    names = test_names()
    many = 40  # in one process, which starts slowly
    groups = [names[i:i + many] for i in range(0, len(names), many)]
    counts = {"passed": 0, "skipped": 0, "failed": 0}
    # Processes beside each other, as most of the time is the processor's. What fails is tried again by itself: a test that
    # looks at the device's free memory sees what the others take.
    with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        all_found = list(pool.map(lambda group: notes.get(f"tests/{group[0]}", 90, tested(group)), groups))
    again = [notes.get(f"tests/alone/{name}", 30, tested([name])) for found in all_found for name in found["failed"]]
    for found in all_found:
        counts["passed"] += len(found["passed"])
        counts["skipped"] += len(found["skipped"])
        for name, why in found.get("refused", {}).items():
            print("REFUSED", name, why)
    for found in again:
        counts["passed"] += len(found["passed"])
        counts["failed"] += len(found["failed"])
        for name in found["failed"]:
            print("FAILED", name)
            print(found["output"])
    table(list(counts), [list(counts.values())])
    if counts["skipped"]:
        print(f"SKIPPED: {counts['skipped']} tests proved nothing: no CUDA device, or no kernel yet")


def part_peers(notes):
    """ResNet-50, GPT-2, the MLP, ViT and MobileNet beside PyTorch at its best, in the precision that people train in"""
    compare(notes, "peers", [("resnet50", 256, "bfloat16"), ("gpt2", 16, "bfloat16"), ("mlp", 64, "float32"),
                             ("vit_b16", 64, "bfloat16"), ("mobilenet_v2", 256, "bfloat16")])


def part_mlp(notes):
    """the two MLPs beside PyTorch, and how long graphs of tiny kernels take"""
    compare(notes, "mlp", [("mlp", 64, "float32"), ("mlp_big", 256, "float32")])
    for count in (20, 40):
        found = notes.get(f"mlp/launches/{count}", 60, torch("launches", count))
        if "seconds" in found:
            print(f"a graph of {count} tiny kernels: {found['seconds'] * 1e6:.1f} us")


def part_resnet(notes):
    """ResNet-50 and ResNet-18 at 224 beside PyTorch, bfloat16 and TF32"""
    compare(notes, "resnet", [(model, batch, precision) for model in ("resnet50", "resnet18")
                              for precision in ("bfloat16", "tf32") for batch in (64, 256)])


def part_mobilenet(notes):
    """MobileNet v2 beside PyTorch"""
    compare(notes, "mobilenet", [("mobilenet_v2", 256, precision) for precision in ("bfloat16", "tf32")])


def part_transformers(notes):
    """ViT-B/16, GPT-2 124M (sequence 1024) and gpt_small beside PyTorch"""
    compare(notes, "transformers", [(model, batch, precision) for precision in ("bfloat16", "tf32")
                                    for model, batch in (("vit_b16", 64), ("gpt2", 16), ("gpt_small", 64))])


def part_libraries(notes):
    """steps with the kernels of cuBLASLt and cuDNN, and with our own"""
    rows, lines = [], []
    for model, batch in (("mlp_big", 256), ("resnet18", 64), ("gpt_small", 16)):
        for precision in ("float32", "bfloat16"):
            key = f"libraries/{model}/{precision}/"
            libraries = notes.get(key + "libraries", 100, ours(model, batch, precision))
            own = notes.get(key + "own", 160, ours(model, batch, precision, "--plain-kernels"))
            rows.append([model, batch, precision, *(one.get("error") or rate(batch, one) for one in (libraries, own))])
            lines += fallbacks(key, libraries)
    table(["model", "batch", "precision", "libraries /s", "own /s"], rows)
    print("\n".join(lines))


def part_tuning(notes):
    """ResNet-50 and GPT steps before and after snug tune: the libraries' other algorithms, our own kernels, passes"""
    rows = []
    for model, batch in (("resnet50", 64), ("gpt_small", 64), ("mlp_big", 256)):
        for precision in ("bfloat16", "tf32"):
            found = notes.get(f"tuning/{model}/{precision}", 300, lambda left: document(
                snug("tune", model, precision, f"--batch={batch}", "--seconds=0.2", "--json",
                     f"--output={output_folder() / f'tuned.{model}.{precision}.pbtxt'}"), left))
            if "error" in found:
                rows.append([model, batch, precision, found["error"], "", ""])
                continue
            chosen = sum(kernel["chosen"] != "default" for kernel in found["kernels"])
            rows.append([model, batch, precision, f"{found['before_ms']:.3f}", f"{found['after_ms']:.3f}",
                         f"{chosen} of {len(found['kernels'])}"])
    table(["model", "batch", "precision", "before ms", "after ms", "kernels chosen"], rows)


def part_memory(notes):
    """planned beside measured bytes under every strategy, forward only and in training"""
    rows = []
    for model, batch in (("mlp", 64), ("resnet18", 64), ("resnet50", 64)):
        found = notes.get(f"memory/{model}", 200, lambda left: document(
            snug("memcost", model, "float32", f"--batch={batch}", "--measure", "--json"), min(left, 400)))
        if "error" in found:
            print(model, found["error"])
        for row in found.get("rows", []):
            rows.append([model, batch, row["mode"], row["strategy"], row["arena"], row["measured"],
                         "yes" if row["arena"] == row["measured"] else "NO", f"{row['step_ms']:.3f}"])
    table(["model", "batch", "mode", "strategy", "planned", "measured", "equal", "step ms"], rows)


def part_batches(notes):
    """ResNet-50 training at the largest batch for 24, 48 and 80 GB: planned and measured, and what PyTorch takes there"""
    rows = []
    for precision in ("bfloat16", "tf32"):
        for gigabytes in (24, 48, 80):
            key = f"batches/{precision}/{gigabytes}/"
            limit = f"--memory-limit={gigabytes}GB"
            fit = notes.get(key + "fit", 150, lambda left: document(
                snug("fit", "resnet50", precision, limit, "--keep-inputs", "--memory=best", "--json"), min(left, 300)))
            batch = max((row["batch"] for row in fit.get("rows", []) if row["mode"] == "training"), default=0)
            step = torch_step = {"error": fit.get("error", "not even one sample fits")}
            if batch > 0:
                step = notes.get(key + "snug", 150, ours("resnet50", batch, precision, limit))
                torch_step = notes.get(key + "eager", 150, torch("resnet50", batch, precision, "eager"))
            rows.append([precision, gigabytes, batch, step.get("planned_bytes", "-"), step.get("peak_bytes", "-"),
                         rate(batch, step), step.get("error", "")[:60],
                         torch_step.get("peak_bytes", torch_step.get("error", "")[:60])])
    table(["precision", "limit GB", "batch", "planned", "measured", "images /s", "problem", "PyTorch's peak"], rows)


# By model: its flags; the share of right answers that it reaches on the processor (docs/training.md), less what chance may
# take; and the steps of a training that is long enough to be stopped on its way.
TRAININGS = {"mlp": (["--learning-rate=0.1"], 0.985, 20000), "resnet20": ([], 0.99, 1000)}


def fresh(name):
    """An empty folder for a training, whatever an earlier one left there."""
    output = HERE / "runs" / name
    shutil.rmtree(output, ignore_errors=True)
    return output


def newest_checkpoint(output):
    found = sorted((output / "checkpoints").glob("step-*.safetensors"))
    return found[-1].read_bytes() if found else None


def stopped(words, output, left):
    """Begins a training and stops it by a signal once it has done steps; its exit code, 4 if it had not come to its end."""
    training = subprocess.Popen([str(word) for word in words], cwd=HERE, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
    metrics, end = output / "metrics.jsonl", time.monotonic() + left
    while training.poll() is None and time.monotonic() < end and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.01)
    training.terminate()
    try:
        return training.wait(max(end - time.monotonic(), 10))
    except subprocess.TimeoutExpired:
        training.kill()
        return training.wait()


def resumed_equals_straight(model, precision, left):
    """Whether a training ends in the same bits when it is stopped and goes on."""
    flags, _, steps = TRAININGS[model]
    end = time.monotonic() + left
    ends = []
    for name in ("straight", "resumed"):
        output = fresh(f"{model}.{precision}.{name}")
        words = snug("train", model, precision, f"--output={output}", f"--steps={steps}", "--evaluate-batches=1", *flags)
        if name == "resumed":
            code = stopped(words, output, end - time.monotonic())
            if code != 4:
                return f"exit code {code} where it was to be stopped"
            words = [*words, "--resume"]
        code, _, err = run(words, max(end - time.monotonic(), 1))
        if code != 0:
            return err.strip()[-200:]
        ends.append(newest_checkpoint(output))
    return "same bits" if ends[0] is not None and ends[0] == ends[1] else "OTHER BITS"


def part_train(notes):
    """snug train with the MLP and the ResNet sample: what they reach, and exact resume"""
    rows = []
    for model, (flags, expected, _) in TRAININGS.items():
        for precision in ("float32", "bfloat16"):
            key = f"train/{model}/{precision}/"
            found = notes.get(key + "whole", 240, lambda left: document(
                snug("train", model, precision, f"--output={fresh(f'{model}.{precision}')}", "--json", *flags), left))
            resumed = notes.get(key + "resumed", 100, lambda left: {
                "is": resumed_equals_straight(model, precision, left)})
            reached = found.get("evaluation", {}).get("accuracy")
            verdict = found["error"] if reached is None else "yes" if reached >= expected else "NO"
            rows.append([model, precision, reached, f"at least {expected}", verdict, resumed["is"]])
    table(["model", "precision", "accuracy", "expected", "reached", "resumed"], rows)


def part_processes(notes):
    """two processes that share the device, each with memory that grows as it is needed"""
    def measure(left):
        ends = {}
        def train(name):
            ends[name] = document(snug("train", "mlp", "float32", f"--output={fresh(name)}", "--steps=2000", "--json",
                                       "--memory=dynamic", "--allocator=auto_growth", "--learning-rate=0.1"), left)
        threads = [threading.Thread(target=train, args=(name,)) for name in ("first", "second")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return ends
    ends = notes.get("processes/two", 120, measure)
    table(["process", "loss", "accuracy", "samples /s"],
          [[name, end.get("error") or end["training"]["loss"], end.get("evaluation", {}).get("accuracy", "-"),
            f"{end.get('samples_per_second', 0):.0f}"] for name, end in sorted(ends.items())])


CEILINGS = {"copy": ("copy",), "cached": ("cached",), "launches": ("launches", 40),
            **{f"matmul {precision}": ("matmul", precision) for precision in ("float32", "tf32", "bfloat16")}}


def ceilings(notes):
    return {name: notes.get(f"ceilings/{name}", 60, torch(*words)) for name, words in CEILINGS.items()}


def device_file(most):
    """Writes what was measured as a device's numbers (proto/device_model.proto), for predictions, and returns the file; None
    if there is too little. What was not measured is assumed, as engine/run/observe/device_model.cc does."""
    if any("error" in one for one in most.values()) or "processors" not in most["copy"]:
        return None
    tera = {name: one["flops_per_second"] * 1e-12 for name, one in most.items() if "flops_per_second" in one}
    file = output_folder() / "device.pbtxt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"""# {most['copy']['device']}: rates that were measured stand for the peaks.
name: "measured"
processors: {most['copy']['processors']}
dram_gb_per_second: {most['copy']['bytes_per_second'] * 1e-9}
l2_gb_per_second: {most['cached']['bytes_per_second'] * 1e-9}
l2_mb: {most['copy']['l2_bytes'] * 1e-6 or 50}
bfloat16_tflops: {tera['matmul bfloat16']}
tf32_tflops: {tera['matmul tf32']}
float32_tflops: {tera['matmul float32']}
float64_tflops: {tera['matmul float32'] / 2}
streaming_share: 0.95
scattered_share: 0.5
library_product_share: 0.95
library_convolution_share: 0.5
own_tensor_core_share: 0.4
own_share: 0.35
launch_us: {most['launches']['seconds'] / 40 * 1e6}
latency_us: 0.9
step_us: 15
""")
    return file


def part_ceilings(notes):
    """what the device can do at best: copies, matrix products, launches in a graph"""
    rows = []
    most = ceilings(notes)
    for name, found in most.items():
        units = {"bytes_per_second": (1e-12, "Tbytes/s"), "flops_per_second": (1e-12, "Tflops/s"), "seconds": (1e6, "us")}
        rows.append([name, found.get("error") or ", ".join(f"{found[key] * by:.3f} {unit}"
                                                           for key, (by, unit) in units.items() if key in found)])
    table(["what", "rate"], rows)
    print(f"as a device's numbers: {device_file(most)}")


def profile(model, batch, precision, most):
    def measure(left):
        flags = []
        if DEVICE != "cpu":
            file = device_file(most)
            flags = [f"--roofline={file}" if file else "--roofline"]
        found = document([*snug("step", model, precision, f"--batch={batch}", "--steps=5", "--keep-inputs", "--profile",
                                "--json"), *flags], min(left, 200))
        if "error" in found:
            return found
        roofline = {row["node"]: row for row in found.get("roofline", {}).get("kernels", [])}
        nodes = [{**{key: node[key] for key in ("node", "op", "kernel", "seconds", "share")},
                  "predicted": roofline.get(node["node"], {}).get("seconds"),
                  "least": roofline.get(node["node"], {}).get("least_seconds"),
                  "why": roofline.get(node["node"], {}).get("why")} for node in found["profile"]["nodes"]]
        return {"seconds": found["profile"]["seconds"], "predicted": found.get("roofline", {}).get("seconds"),
                "nodes": sorted(nodes, key=lambda node: -node["seconds"])[:200]}
    return measure


def part_profile(notes):
    """where the time of steps of ResNet-50, GPT-2 and ViT goes, beside the roofline of each kernel and what was predicted"""
    most = ceilings(notes)
    for model, batch in (("resnet50", 64), ("resnet50", 256), ("gpt2", 16), ("vit_b16", 64)):
        found = notes.get(f"profile/{model}/{batch}", 90, profile(model, batch, "bfloat16", most))
        if "error" in found:
            print(model, batch, found["error"])
            continue
        rows = []
        for node in found["nodes"]:
            share = node["least"] / node["seconds"] if node["least"] and node["seconds"] else None
            low = share is not None and share < 0.5 and node["share"] > 0.002
            if node["share"] < 0.01 and not low:
                continue
            rows.append([node["node"], node["op"], node["kernel"], f"{node['seconds'] * 1e6:.1f}", f"{node['share']:.1%}",
                         "-" if node["predicted"] is None else f"{node['predicted'] * 1e6:.1f}",
                         "-" if share is None else f"{share:.0%}", node["why"] if low else ""])
        predicted = "" if found["predicted"] is None else f", predicted {found['predicted'] * 1e3:.3f}"
        print(f"{model}, batch {batch}: a step by single kernels takes {found['seconds'] * 1e3:.3f} ms{predicted}")
        table(["node", "op", "kernel", "us", "share", "predicted us", "of the roofline", "below half because of"], rows)


def part_sanitizer(notes):
    """compute-sanitizer over the small samples of the ops: memcheck, racecheck (where it is installed)"""
    rows = []
    names = [name for name in test_names() if name.startswith("Cuda.")]
    many = 60
    groups = [names[i:i + many] for i in range(0, len(names), many)]
    for tool in ("memcheck", "racecheck"):
        counts = {"clean": 0, "not installed": 0, "not clean": 0}
        for group in groups:
            def measure(left):
                code, out, err = run(["compute-sanitizer", f"--tool={tool}", "--error-exitcode=9", HERE / "snug_gpu_test",
                                      "--gtest_filter=" + ":".join(group)], left)
                if code == NOT_INSTALLED:
                    return {"result": "not installed"}
                return {"result": "clean" if code == 0 else "not clean", "output": (out + err)[-3000:] if code else ""}
            found = notes.get(f"sanitizer/{tool}/{group[0]}", 120, measure)
            counts[found["result"]] += 1
            if found["result"] == "not clean":
                print(tool, group[0], found["output"])
            if found["result"] == "not installed":
                break
        rows.append([tool, *counts.values()])
    table(["tool", *(f"groups {name}" for name in ("clean", "not installed", "not clean"))], rows)


PARTS = [part_machine, part_smoke, part_tests, part_peers, part_mlp, part_resnet, part_libraries, part_memory, part_train,
         part_transformers, part_mobilenet, part_batches, part_ceilings, part_profile, part_tuning, part_processes,
         part_sanitizer]
