"""Mistakes that a type checker is to find: one on each line that says so. It is never run."""

import snug

network = snug.Network(1)  # wrong: a path
snug.Network.from_text(b"name")  # wrong: a text
network.with_classes("three")  # wrong: a number
snug.plan(network).total_byte  # wrong: no such number
session = snug.Session(network, batch="32")  # wrong: a number
snug.Session(network, 32)  # wrong: options have names
session.step({"x": [1.0]}).loss  # wrong: a dict
session.steps = 3  # wrong: only to be read
session.evaluation.evaluate({})  # wrong: there may be none
session.fit({}, epochs="many")  # wrong: a number
session.parameters["fc1.weight"].shape.append(1)  # wrong: a tuple
session.save(3)  # wrong: a path
snug.fit(network)  # wrong: what has to fit
snug.Sesion  # wrong: no such name
