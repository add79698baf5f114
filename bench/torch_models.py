"""The networks of models/*.pbtxt in PyTorch: what bench/torch_peer.py times and tests/golden/parity/make_parity.py runs.

Parameters bear the names that the model files give them.
"""

import math

import torch
import torch.nn.functional as F
import torchvision
from torch import nn


class Mlp(nn.Module):
    def __init__(self, *widths):
        super().__init__()
        for i, (before, after) in enumerate(zip(widths, widths[1:]), 1):
            self.add_module(f"fc{i}", nn.Linear(before, after))

    def forward(self, x):
        *hidden, last = self.children()
        for layer in hidden:
            x = F.relu(layer(x))
        return last(x)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("future", torch.ones(length, length, dtype=torch.bool).triu(1), persistent=False)

    def attention(self, q, k, v):
        if hasattr(F, "scaled_dot_product_attention"):  # Debian's PyTorch, which the goldens are made with, has none
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(q.shape[-1]))
        return scores.masked_fill(self.future, -math.inf).softmax(-1) @ v

    def forward(self, x):
        batch, length, width = x.shape
        heads = lambda t: t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        q, k, v = map(heads, self.qkv(self.ln1(x)).split(width, 2))
        mixed = self.attention(q, k, v)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """GPT-2's form: layer norm first, causal attention, tanh-gelu, learned positions, the head tied to the embedding."""

    def __init__(self, layers, width, heads, length, words):
        super().__init__()
        self.tok = nn.Embedding(words, width)
        self.pos = nn.Parameter(torch.randn(length, width))
        nn.init.normal_(self.tok.weight, std=0.02)
        self.blocks = nn.Sequential(*[Block(width, heads, length) for _ in range(layers)])
        self.ln = nn.LayerNorm(width)

    def forward(self, tokens):
        return F.linear(self.ln(self.blocks(self.tok(tokens) + self.pos)), self.tok.weight)


class BertBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj, self.ln1 = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width, 1e-12)
        self.fc1, self.fc2, self.ln2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.LayerNorm(width, 1e-12)

    def forward(self, x):
        batch, length, width = x.shape
        heads = lambda t: t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        q, k, v = map(heads, self.qkv(x).split(width, 2))
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = self.ln1(x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width)))
        return self.ln2(x + self.fc2(F.gelu(self.fc1(x))))


class Bert(nn.Module):
    """BERT that names words: layer norm last, gelu, learned positions, the decoder tied to the embedding."""

    def __init__(self, layers, width, heads, length, words):
        super().__init__()
        self.tok, self.seg = nn.Embedding(words, width), nn.Embedding(2, width)
        nn.init.normal_(self.tok.weight, std=0.02)
        self.positions = nn.Parameter(0.02 * torch.randn(512, width))
        self.length = length
        self.norm = nn.LayerNorm(width, 1e-12)
        self.blocks = nn.Sequential(*[BertBlock(width, heads) for _ in range(layers)])
        self.transform, self.ln = nn.Linear(width, width), nn.LayerNorm(width, 1e-12)
        self.head_bias = nn.Parameter(torch.zeros(words))

    def forward(self, tokens):
        segments = torch.zeros_like(tokens)
        x = self.norm(self.tok(tokens) + self.seg(segments) + self.positions[:self.length])
        x = self.ln(F.gelu(self.transform(self.blocks(x))))
        return F.linear(x, self.tok.weight, self.head_bias)


WITHOUT_HEADS = {"aux_logits": False, "init_weights": True}  # the auxiliary ones
# By model that torchvision has: what it is made with, and the size of its pictures.
TORCHVISION = {**{name: ({}, 224) for name in ("alexnet", "vgg16", "resnet18", "resnet34", "resnet50", "densenet121",
                                               "squeezenet1_0", "mnasnet1_0", "mobilenet_v2", "efficientnet_b0",
                                               "convnext_tiny", "vit_b16")},
               "googlenet": (WITHOUT_HEADS, 224), "inception_v3": (WITHOUT_HEADS, 299)}


def benchmark(name, batch):
    """(module, input, labels) on random data, as `snug step models/NAME.pbtxt --batch=BATCH` has them."""
    torch.manual_seed(0)
    if name == "mlp":
        return Mlp(784, 256, 128, 10), torch.randn(batch, 784), torch.randint(10, (batch,))
    if name == "mlp_big":
        return Mlp(784, 2048, 2048, 10), torch.randn(batch, 784), torch.randint(10, (batch,))
    if name == "lenet":
        return LeNet(), torch.randn(batch, 1, 28, 28), torch.randint(10, (batch,))
    if name == "gpt_small":
        length, words = 128, 5000
        tokens = torch.randint(words, (2, batch, length))
        return Gpt(layers=4, width=256, heads=4, length=length, words=words), tokens[0], tokens[1]
    if name == "gpt2":
        length, words = 1024, 50257
        tokens = torch.randint(words, (2, batch, length))
        return Gpt(layers=12, width=768, heads=12, length=length, words=words), tokens[0], tokens[1]
    if name == "bert_base":
        length, words = 128, 30522
        tokens = torch.randint(words, (2, batch, length))
        return Bert(layers=12, width=768, heads=12, length=length, words=words), tokens[0], tokens[1]
    if name in TORCHVISION:
        flags, size = TORCHVISION[name]
        module = getattr(torchvision.models, {"vit_b16": "vit_b_16"}.get(name, name))
        return module(**flags), torch.randn(batch, 3, size, size), torch.randint(1000, (batch,))
    raise ValueError(f"no such model: {name}")
