"""Networks of torchvision and transformers, exported to ONNX: what peers_test.py imports.

Weights are drawn, and statistics moved from where they begin, so that no mistake hides behind zeros and ones.
"""

import warnings

IMAGES = ["alexnet", "vgg11", "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_0", "densenet121",
          "googlenet", "inception_v3", "mnasnet1_0", "efficientnet_b0", "convnext_tiny", "vit_b_16", "swin_t",
          "shufflenet_v2_x1_0", "regnet_y_400mf"]
TEXTS = ["bert", "gpt2", "distilbert"]
TOKENS, LENGTH = 100, 16


def image_network(name):
    import torch
    import torchvision

    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    module = getattr(torchvision.models, name)(weights=None, **options)
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
        if isinstance(part, torch.nn.Linear) and part.weight.abs().max() == 0:  # the head of vit_b_16
            torch.nn.init.normal_(part.weight, 0, 0.05)
    size = 299 if name == "inception_v3" else 224
    return module, torch.randn(2, 3, size, size)


def text_network(name):
    import torch
    import transformers as t

    if name == "bert":
        model = t.BertModel(t.BertConfig(vocab_size=TOKENS, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                                         intermediate_size=96, max_position_embeddings=64))
    elif name == "gpt2":
        model = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=TOKENS, n_embd=48, n_layer=2, n_head=4, n_positions=64,
                                               use_cache=False, bos_token_id=1, eos_token_id=1))
    else:
        model = t.DistilBertModel(t.DistilBertConfig(vocab_size=TOKENS, dim=48, n_layers=2, n_heads=4, hidden_dim=96,
                                                     max_position_embeddings=64))

    class OfTokens(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, tokens):
            result = self.model(input_ids=tokens)
            return result.logits if hasattr(result, "logits") else result.last_hidden_state

    return OfTokens(), torch.randint(0, TOKENS, (2, LENGTH))


def small_network():
    """Layers that exporters write in several ways, in a network that takes no time."""
    import torch
    from torch import nn

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU())
            self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.Hardswish(), nn.Conv2d(8, 16, 1),
                                      nn.GroupNorm(4, 16), nn.GELU())
            self.pool = nn.AvgPool2d(3, 2, 1, count_include_pad=False)
            self.norm = nn.LayerNorm(16)
            self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
            self.head = nn.Linear(16, 5)

        def forward(self, image):
            x = self.deep(self.stem(image))
            x = nn.functional.interpolate(self.pool(x), scale_factor=2, mode="bilinear")
            rows = self.norm(x.flatten(2).transpose(1, 2))
            rows = rows + self.attention(rows, rows, rows, need_weights=False)[0]
            return self.head(rows.mean(1))

    module = Small()
    module.stem[1].running_mean.normal_(0, 0.1)
    module.stem[1].running_var.uniform_(0.5, 1.5)
    return module, torch.randn(2, 3, 16, 16)


def export(name, path, dynamo):
    """Writes the network as ONNX with an open batch; by PyTorch's exporter, or by the one before."""
    import torch

    torch.manual_seed(1)
    torch.backends.mha.set_fastpath_enabled(False)  # an op of PyTorch's own, which its older exporter does not know
    module, example = small_network() if name == "small" else image_network(name) if name in IMAGES else text_network(name)
    module.eval()
    names = {"input_names": ["x"], "output_names": ["y"]}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        if dynamo:
            batch = torch.export.Dim("batch", min=1, max=64)
            torch.onnx.export(module, (example,), path, dynamo=True, dynamic_shapes=({0: batch},), verbose=False,
                              external_data=name == "small", **names)
        else:
            torch.onnx.export(module, (example,), path, dynamo=False, dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, **names)
