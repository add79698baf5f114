"""The parts of bundle-run: each measures what is not noted yet and prints a table. What a part is, is its first line."""

import datetime
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from gpu_notes import HERE, NOT_INSTALLED, document, output_folder, run, table

DEVICE = "cuda"  # bundle-run --device
WARM_UP = 3  # steps of ours that are left out: the first records the graph
FEW_STEPS = {"gpt2": 5}  # by model: how many are measured where 30 take too long


def snug(command, model, precision, *flags):
    """The words of a command of ours."""
    words = [HERE / "snug", command, f"models/{model}.pbtxt", f"--device={DEVICE}", *flags]
    if precision == "tf32":
        return [*words, "--precision=float32"] + (["--tf32"] if DEVICE != "cpu" else [])
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
    return lambda left: document([sys.executable, HERE / "bench/torch_gpu_peer.py", *words, 3], min(left, 240))


def rate(batch, found):
    return f"{batch / found['seconds']:.0f}" if "seconds" in found else "-"


def fallbacks(key, found):
    """Lines about nodes that a library did not serve, where it was to."""
    return [f"{key}: {one['library']} does not serve {one['node']} ({one['op']}), our own kernel does: {one['why']}"
            for one in found.get("fallbacks", [])]


def compare(notes, part, models):
    """Ours beside PyTorch, samples a second and peak MB."""
    rows, errors = [], []
    for model, batch, precision in models:
        key = f"{part}/{model}/{batch}/{precision}/"
        found = {"snug": notes.get(key + "snug", 100, ours(model, batch, precision))}
        for mode in ("eager", "compile", "graph"):
            longest = 200 if mode == "compile" else 100
            found[mode] = notes.get(key + mode, longest, torch(model, batch, precision, mode))
        errors += [f"{key}{name}: {one['error']}" for name, one in found.items() if "error" in one]
        errors += fallbacks(key, found["snug"])
        times = {name: one["seconds"] for name, one in found.items() if "seconds" in one}
        best = min((seconds for name, seconds in times.items() if name != "snug"), default=None)
        ratio = f"{best / times['snug']:.2f}" if best and "snug" in times else "-"
        peak = lambda one: f"{one['peak_bytes'] * 1e-6:.0f}" if "peak_bytes" in one else "-"
        rows.append([model, batch, precision, *(rate(batch, one) for one in found.values()), ratio, peak(found["snug"]),
                     peak(found["eager"])])
    table(["model", "batch", "precision", "snug /s", "eager /s", "compile /s", "graph /s", "snug / best", "snug MB",
           "eager MB"], rows)
    print("\n".join(errors))


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


def part_tests(notes):
    """snug_gpu_test, test by test: CUDA against CPU, same bits however a step is run, plan == measured"""
    code, out, err = run([HERE / "snug_gpu_test", "--gtest_list_tests"], 60)
    names, suite = [], ""
    for line in out.splitlines():
        if not line.startswith(" "):
            suite = line.split("#")[0].strip() if line.endswith(".") or "#" in line else ""
        elif suite:
            names.append(suite + line.split("#")[0].strip())
    many = 40  # in one process, which starts slowly
    groups = [names[i:i + many] for i in range(0, len(names), many)]
    counts = {"passed": 0, "skipped": 0, "failed": 0}
    for group in groups:
        def check(left):
            found = {"passed": [], "skipped": [], "failed": [], "refused": {}}
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "tests.json"
                code, out, err = run([HERE / "snug_gpu_test", "--gtest_filter=" + ":".join(group),
                                      f"--gtest_output=json:{file}"], left)
                if not file.exists():
                    return {**found, "failed": group, "output": (out + err)[-2000:]}
                suites = json.loads(file.read_text())["testsuites"]
            for one in suites:
                for test in one["testsuite"]:
                    kind = "failed" if test.get("failures") else "skipped" if test["result"] == "SKIPPED" else "passed"
                    found[kind].append(one["name"] + "." + test["name"])
                    if "refused" in test:
                        found["refused"][one["name"] + "." + test["name"]] = test["refused"]
            return {**found, "output": out[-4000:] if found["failed"] else ""}
        found = notes.get(f"tests/{group[0]}", 90, check)
        for kind in counts:
            counts[kind] += len(found[kind])
        for name, why in found.get("refused", {}).items():
            print("REFUSED", name, why)
        for name in found["failed"]:
            print("FAILED", name)
        if found["failed"]:
            print(found["output"])
    table(list(counts), [list(counts.values())])
    if counts["skipped"]:
        print(f"SKIPPED: {counts['skipped']} tests proved nothing: no CUDA device, or no kernel yet")


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


CEILINGS = {"copy": ("copy",), **{f"matmul {precision}": ("matmul", precision)
                                  for precision in ("float32", "tf32", "bfloat16")}}


def ceilings(notes):
    return {name: notes.get(f"ceilings/{name}", 60, torch(*words)) for name, words in CEILINGS.items()}


def part_ceilings(notes):
    """what the device can do at best: copy bandwidth, matrix products"""
    rows = []
    for name, found in ceilings(notes).items():
        rows.append([name, found.get("error") or ", ".join(
            f"{value * 1e-12:.3f} T{unit.split('_')[0]}/s" for unit, value in found.items() if unit != "torch")])
    table(["what", "rate"], rows)


def part_profile(notes):
    """the kernels over 1 % of a ResNet-50 step, with their shares and their fraction of the roofline"""
    most = ceilings(notes)
    for precision in ("bfloat16", "tf32"):
        found = notes.get(f"profile/resnet50/{precision}", 120, lambda left: document(
            snug("step", "resnet50", precision, "--batch=64", "--steps=8", "--keep-inputs", "--profile", "--json"),
            min(left, 200)))
        if "error" in found:
            print(precision, found["error"])
            continue
        bytes_rate = most["copy"].get("bytes_per_second")
        flops_rate = most[f"matmul {precision}"].get("flops_per_second")
        rows = []
        for node in sorted(found["profile"]["nodes"], key=lambda node: -node["seconds"]):
            if node["share"] < 0.01:
                break
            least = max(node["flops"] / flops_rate, node["bytes"] / bytes_rate) if bytes_rate and flops_rate else 0
            rows.append([node["node"], node["op"], f"{node['seconds'] * 1e6:.1f}", f"{100 * node['share']:.1f} %",
                         f"{least / node['seconds']:.2f}" if least else "-"])
        print(f"{precision}: a step by single kernels takes {found['profile']['seconds'] * 1e3:.3f} ms; "
              f"{sum(node['share'] for node in found['profile']['nodes'] if node['share'] >= 0.01):.0%} of it is here")
        table(["node", "op", "us", "share", "of the roofline"], rows)


def part_sanitizer(notes):
    """compute-sanitizer over the training suite: memcheck, racecheck, initcheck (where it is installed)"""
    rows = []
    for tool in ("memcheck", "racecheck", "initcheck"):
        def measure(left):
            code, out, err = run(["compute-sanitizer", f"--tool={tool}", "--error-exitcode=9", HERE / "snug_gpu_test",
                                  "--gtest_filter=*CudaTraining.LosesAsTheCpuDoes/mlp"], left)
            if code == NOT_INSTALLED:
                return {"result": "not installed"}
            return {"result": "clean" if code == 0 else (out + err)[-1500:]}
        rows.append([tool, notes.get(f"sanitizer/{tool}", 200, measure)["result"]])
    table(["tool", "result"], rows)


PARTS = [part_machine, part_tests, part_mlp, part_resnet, part_libraries, part_memory, part_train, part_transformers,
         part_mobilenet, part_batches, part_ceilings, part_profile, part_tuning, part_processes, part_sanitizer]
