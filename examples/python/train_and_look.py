#!/usr/bin/env python3
# %% [markdown]
# # Train a network, and see its memory
#
# Each `# %%` begins a cell, as Jupyter (by jupytext), VS Code and Spyder read it; a cell's last expression is shown. As
# a program, `python train_and_look.py --out page.html` puts what the cells show onto a page. Nothing but `snug` is
# needed.

# %% What is computed: in which quadrant of the plane a point lies
import argparse
import array
import random

import snug

network = snug.Network.from_text("""
name: "quadrants"
input { name: "point" shape { dim: 2 } }
input { name: "quadrant" dtype: INT32 max_value: 4 }
layer { name: "hidden" input: "point" dense { units: 64 } }
layer { name: "bent" input: "hidden" tanh {} }
layer { name: "score" input: "bent" dense { units: 4 } }
layer { name: "loss" input: "score" input: "quadrant" softmax_cross_entropy {} }
objective: "loss"
output: "score"
optimizer { learning_rate: 0.02 adam {} }
""")

# %% What a step takes, before anything is taken: where each value lies, and when
plan = snug.plan(network, batch=64)
plan  # a notebook draws it

# %% The same by every quick strategy
costs = snug.memcost(network, batch=64, training=True)
costs

# %% The largest batch that 1 MB has room for
snug.fit(network, "1MB", strategies="best", training=True)


# %% Data. With NumPy these would be two arrays; Python's own do as well
def draw(count, seed):
    numbers = random.Random(seed)
    coordinates = [numbers.uniform(-1, 1) for _ in range(2 * count)]
    labels = [(coordinates[2 * i] < 0) + 2 * (coordinates[2 * i + 1] < 0) for i in range(count)]
    points = memoryview(array.array("f", coordinates)).cast("B").cast("f", (count, 2))
    return {"point": points, "quadrant": array.array("i", labels)}


# %% Training. Ctrl-C (or the notebook's stop button) ends it, and the session can go on
session = snug.Session(network, batch=64, evaluation_batch=64, seed=1)
losses = []
epochs = session.fit(draw(4096, seed=1), epochs=5, validation=draw(512, seed=2),
                     on_step=lambda step, outputs: losses.append(outputs["loss"]))
for epoch in epochs:
    print(f"epoch {epoch.number}: loss {epoch.means['loss']:.3f}, of data held back {epoch.validation['loss']:.3f}")

# %% How good is it?
unseen = draw(256, seed=3)
scores = session.evaluation.predict(unseen, "score").tolist()
right = sum(row.index(max(row)) == label for row, label in zip(scores, unseen["quadrant"]))
print(f"{right} of 256 unseen points right")


# %% The curve, drawn by hand
class Curve:
    def __init__(self, values, width=900, height=220):
        top = max(values)
        self.points = " ".join(f"{40 + (width - 50) * i / max(len(values) - 1, 1):.1f},"
                               f"{height - 20 - (height - 40) * v / top:.1f}"
                               for i, v in enumerate(values))
        self.width, self.height, self.top = width, height, top

    def _repr_html_(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" '
                f'height="{self.height}" font-family="sans-serif" font-size="12">'
                f'<text x="0" y="24">{self.top:.2f}</text><text x="18" y="{self.height - 16}">0</text>'
                f'<polyline points="{self.points}" fill="none" stroke="#4f8fd8" stroke-width="1.5"/></svg>')


curve = Curve(losses)
curve

# %% As a program: what the cells show, on a page
if __name__ == "__main__" and "get_ipython" not in globals():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", help="the page to write")
    page = parser.parse_args().out
    if page:
        shown = [plan, costs, curve]
        with open(page, "w", encoding="utf-8") as file:
            file.write("<!doctype html><meta charset=\"utf-8\"><title>Quadrants</title>"
                       + "".join(f"<section>{part._repr_html_()}</section>" for part in shown))
        print(f"the page is {page}")
