"""The networks of models/ that torchvision does not have, in PyTorch, under the names that the model files give. Where
others than a cross entropy of the outputs is minimised, a network has a `loss_of`. Llama, XLM-R, GPT-2 and BERT come
from pip's transformers, in a few of their sizes; they are imported only when they are asked for."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


def attend(q, k, v, heads, causal=False):
    """[batch, length, heads * width] each."""
    q, k, v = (t.unflatten(2, (heads, -1)).transpose(1, 2) for t in (q, k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class AttendWithin(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.proj, self.ln = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        return self.ln(x + self.proj(attend(*self.qkv(x).chunk(3, 2), self.heads, self.causal)))


class AttendAcross(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.proj, self.ln = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x, read):
        return self.ln(x + self.proj(attend(self.q(x), *self.kv(read).chunk(2, 2), self.heads)))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1, self.fc2, self.ln = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.LayerNorm(width)

    def forward(self, x):
        return self.ln(x + self.fc2(F.relu(self.fc1(x))))


class Transformer(nn.Module):
    """Encoder and decoder; one table for the words of both and for the head."""

    def __init__(self, words, width=512, heads=8, layers=6):
        super().__init__()
        self.width, self.layers = width, layers
        self.words = nn.Embedding(words, width)
        for i in range(layers):
            self.add_module(f"reader{i}", nn.ModuleDict({
                "within": AttendWithin(width, heads, causal=False), "feed": FeedForward(width)}))
            self.add_module(f"writer{i}", nn.ModuleDict({
                "within": AttendWithin(width, heads, causal=True), "across": AttendAcross(width, heads),
                "feed": FeedForward(width)}))

    def start(self, tokens):
        exponents = torch.arange(self.width // 2, dtype=self.words.weight.dtype) * (-math.log(10000) * 2 / self.width)
        angles = torch.arange(tokens.shape[1], dtype=exponents.dtype)[:, None] * exponents.exp()
        return self.words(tokens) * math.sqrt(self.width) + torch.cat([angles.sin(), angles.cos()], 1)

    def forward(self, source, target):
        read, written = self.start(source), self.start(target)
        for i in range(self.layers):
            layer = getattr(self, f"reader{i}")
            read = layer["feed"](layer["within"](read))
        for i in range(self.layers):
            layer = getattr(self, f"writer{i}")
            written = layer["feed"](layer["across"](layer["within"](written), read))
        return F.linear(written, self.words.weight)

    def loss_of(self, logits, label):
        return F.cross_entropy(logits.flatten(0, 1), label.flatten(), label_smoothing=0.1)


class DoubleConv(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(before, after))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.up, self.conv = nn.ConvTranspose2d(before, after, 2, stride=2), DoubleConv(before, after)

    def forward(self, x, beside):
        return self.conv(torch.cat([beside, self.up(x)], 1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inc = DoubleConv(3, 64)
        self.down1, self.down2, self.down3, self.down4 = Down(64, 128), Down(128, 256), Down(256, 512), Down(512, 1024)
        self.up1, self.up2, self.up3, self.up4 = Up(1024, 512), Up(512, 256), Up(256, 128), Up(128, 64)
        self.outc = nn.ModuleDict({"conv": nn.Conv2d(64, 2, 1)})

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x4 = self.down3(x3)
        x = self.up4(self.up3(self.up2(self.up1(self.down4(x4), x4), x3), x2), x1)
        return self.outc["conv"](x).permute(0, 2, 3, 1)


class NeuMf(nn.Module):
    def __init__(self, users=6040, items=3706, factors=32):
        super().__init__()
        self.embed_user_GMF, self.embed_item_GMF = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.embed_user_MLP, self.embed_item_MLP = nn.Embedding(users, 4 * factors), nn.Embedding(items, 4 * factors)
        layers = []
        for width in (8 * factors, 4 * factors, 2 * factors):
            layers += [nn.Identity(), nn.Linear(width, width // 2), nn.ReLU()]  # a dropout of 0
        self.MLP_layers = nn.Sequential(*layers)
        self.predict_layer = nn.Linear(2 * factors, 1)

    def forward(self, user, item):
        product = self.embed_user_GMF(user) * self.embed_item_GMF(item)
        deep = self.MLP_layers(torch.cat([self.embed_user_MLP(user), self.embed_item_MLP(item)], -1))
        return self.predict_layer(torch.cat([product, deep], -1))

    def loss_of(self, logits, label):
        return F.binary_cross_entropy_with_logits(logits, label.to(logits.dtype))


class PreActivationBottleneck(nn.Module):
    def __init__(self, before, channels, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(before), nn.Conv2d(before, channels, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn3, self.conv3 = nn.BatchNorm2d(channels), nn.Conv2d(channels, 4 * channels, 1, bias=False)
        first = before != 4 * channels
        self.downsample = nn.Conv2d(before, 4 * channels, 1, stride=stride, bias=False) if first else None

    def forward(self, x):
        normal = F.relu(self.bn1(x))
        y = self.conv3(F.relu(self.bn3(self.conv2(F.relu(self.bn2(self.conv1(normal)))))))
        return y + (x if self.downsample is None else self.downsample(normal))


class PreActivationResNet(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        before = 16
        for stage, channels in enumerate((16, 32, 64), 1):
            layers = []
            for i in range(blocks):
                layers.append(PreActivationBottleneck(before, channels, 2 if i == 0 and stage > 1 else 1))
                before = 4 * channels
            self.add_module(f"layer{stage}", nn.Sequential(*layers))
        self.bn, self.fc = nn.BatchNorm2d(before), nn.Linear(before, 10)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.conv1(x))))
        return self.fc(F.relu(self.bn(x)).mean((2, 3)))


class ConvBnRelu(nn.Module):
    def __init__(self, before, filters, kernel, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(before, filters, kernel, stride=stride, padding=kernel // 2)
        self.bn = nn.BatchNorm2d(filters)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class InceptionPart(nn.Module):
    """`one` None: half the size."""

    def __init__(self, before, one, reduced, three, double_reduced, double, pooled=None, pool=None):
        super().__init__()
        stride = 1 if one else 2
        parts = {
            "1x1": ConvBnRelu(before, one, 1) if one else None,
            "3x3_reduce": ConvBnRelu(before, reduced, 1), "3x3": ConvBnRelu(reduced, three, 3, stride),
            "double_3x3_reduce": ConvBnRelu(before, double_reduced, 1),
            "double_3x3_1": ConvBnRelu(double_reduced, double, 3),
            "double_3x3_2": ConvBnRelu(double, double, 3, stride),
            "pool_proj": ConvBnRelu(before, pooled, 1) if one else None,
        }
        for name, part in parts.items():
            self.add_module(name, part)
        self.pool = nn.AvgPool2d(3, 1, 1) if pool == "mean" else nn.MaxPool2d(3, stride, 1)
        self.width = (one or 0) + three + double + (pooled or before)

    def forward(self, x):
        part = self._modules
        y = [part["3x3"](part["3x3_reduce"](x)), part["double_3x3_2"](part["double_3x3_1"](part["double_3x3_reduce"](x)))]
        if part["1x1"] is None:
            return torch.cat([*y, self.pool(x)], 1)
        return torch.cat([part["1x1"](x), *y, part["pool_proj"](self.pool(x))], 1)


class InceptionBn(nn.Module):
    PARTS = {"3a": (64, 64, 64, 64, 96, 32, "mean"), "3b": (64, 64, 96, 64, 96, 64, "mean"), "3c": (None, 128, 160, 64, 96),
             "4a": (224, 64, 96, 96, 128, 128, "mean"), "4b": (192, 96, 128, 96, 128, 128, "mean"),
             "4c": (160, 128, 160, 128, 160, 128, "mean"), "4d": (96, 128, 192, 160, 192, 128, "mean"),
             "4e": (None, 128, 192, 192, 256), "5a": (352, 192, 320, 160, 224, 128, "mean"),
             "5b": (352, 192, 320, 192, 224, 128, "max")}

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2_reduce, self.conv2 = ConvBnRelu(3, 64, 7, 2), ConvBnRelu(64, 64, 1), ConvBnRelu(64, 192, 3)
        width = 192
        for name, widths in self.PARTS.items():
            part = InceptionPart(width, *widths)
            self.add_module("inception_" + name, part)
            width = part.width
        self.fc = nn.Linear(width, 1000)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.conv2(self.conv2_reduce(x)), 3, 2, ceil_mode=True)
        for name in self.PARTS:
            x = getattr(self, "inception_" + name)(x)
        return self.fc(x.mean((2, 3)))


class Generator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        layers, before = [], 100
        for width in (8 * width, 4 * width, 2 * width, width):
            first = before == 100
            layers += [nn.ConvTranspose2d(before, width, 4, 1 if first else 2, 0 if first else 1, bias=False),
                       nn.BatchNorm2d(width), nn.ReLU()]
            before = width
        self.main = nn.Sequential(*layers, nn.ConvTranspose2d(before, 3, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, noise):
        return self.main(noise)


class Discriminator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        layers, before = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2)], width
        for width in (2 * width, 4 * width, 8 * width):
            layers += [nn.Conv2d(before, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.LeakyReLU(0.2)]
            before = width
        self.main = nn.Sequential(*layers, nn.Conv2d(before, 1, 4, bias=False))

    def forward(self, image):
        return self.main(image)


class Dcgan(nn.Module):
    """Each is updated by an optimizer of its own, in the sequence of PyTorch's tutorial."""

    def __init__(self, width=64):
        super().__init__()
        self.generator, self.discriminator = Generator(width), Discriminator(width)

    def parts(self):
        """What an optimizer each updates."""
        return self.discriminator, self.generator

    def losses_in_turn(self, noise, image):
        """Of each part. The next one is computed after the part was updated."""
        loss = F.binary_cross_entropy_with_logits
        real = self.discriminator(image)
        yes, no = torch.ones_like(real), torch.zeros_like(real)
        drawn = self.generator(noise)
        yield loss(real, yes) + loss(self.discriminator(drawn.detach()), no)
        yield loss(self.discriminator(drawn), yes)


def llama(words):
    from transformers import LlamaConfig, LlamaForCausalLM

    class Llama(LlamaForCausalLM):
        def forward(self, tokens):
            return super().forward(input_ids=tokens, use_cache=False).logits

    network = Llama(LlamaConfig(
        vocab_size=words, hidden_size=768, intermediate_size=2304, num_hidden_layers=12, num_attention_heads=12,
        num_key_value_heads=6, rms_norm_eps=1e-5, tie_word_embeddings=True, attn_implementation="sdpa"))

    # transformers computes these two in float32 whatever the weights are; here it is what the run computes in.
    def rms_norm(norm, x):
        return norm.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + norm.variance_epsilon)

    def rotary(x, position_ids, **_):
        angles = position_ids[..., None].to(x.dtype) * (torch.arange(32, dtype=x.dtype) * (-math.log(10000) / 32)).exp()
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()

    for module in network.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            module.forward = rms_norm.__get__(module)
    network.model.rotary_emb.forward = rotary
    return network


class XlmRoberta(nn.Module):
    """Gives a sentence the numbers that a teacher gives it."""

    def __init__(self, words):
        super().__init__()
        from transformers import XLMRobertaConfig, XLMRobertaModel

        self.roberta = XLMRobertaModel(XLMRobertaConfig(
            vocab_size=words, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5,
            hidden_dropout_prob=0, attention_probs_dropout_prob=0, attn_implementation="sdpa"))
        for table in (self.roberta.embeddings.word_embeddings, self.roberta.embeddings.position_embeddings):
            table.padding_idx = None  # every sample fills its row

    def forward(self, tokens):
        positions = torch.arange(2, 2 + tokens.shape[1]).expand(tokens.shape)
        return self.roberta(input_ids=tokens, position_ids=positions).pooler_output

    def loss_of(self, sentences, target):
        return F.mse_loss(sentences, target)


class Gpt2(nn.Module):
    """transformers' GPT-2 under the names and shapes of models/gpt2.pbtxt: a dense layer's weights are [outputs, inputs] in
    the file, and [inputs, outputs] in what computes here."""

    LAYERS = {"ln1": "ln_1", "qkv": "attn.c_attn", "proj": "attn.c_proj", "ln2": "ln_2", "fc1": "mlp.c_fc",
              "fc2": "mlp.c_proj"}

    def __init__(self, length, words, layers=12, width=768, heads=12):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        published = GPT2LMHeadModel(GPT2Config(
            vocab_size=words, n_positions=length, n_embd=width, n_layer=layers, n_head=heads, resid_pdrop=0,
            embd_pdrop=0, attn_pdrop=0, bos_token_id=None, eos_token_id=None, attn_implementation="sdpa"))
        self.published = [published]  # not a part of this module, so its own parameters are not among this one's
        self.tok = nn.Embedding(words, width)
        self.pos = nn.Parameter(torch.zeros(length, width))
        self.layers = layers
        for i in range(layers):
            self.add_module(f"block{i}", nn.ModuleDict({
                "ln1": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width),
                "ln2": nn.LayerNorm(width), "fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)}))
        self.ln = nn.LayerNorm(width)

    def as_published(self):
        given = {"transformer.wte.weight": self.tok.weight, "transformer.wpe.weight": self.pos}
        for i in range(self.layers):
            block = getattr(self, f"block{i}")
            for layer, theirs in self.LAYERS.items():
                given[f"transformer.h.{i}.{theirs}.weight"] = block[layer].weight.t()  # a layer norm's is as it was
                given[f"transformer.h.{i}.{theirs}.bias"] = block[layer].bias
        return given | {"transformer.ln_f.weight": self.ln.weight, "transformer.ln_f.bias": self.ln.bias}

    def forward(self, tokens):
        arguments = {"input_ids": tokens, "use_cache": False}
        return functional_call(self.published[0], self.as_published(), (), arguments, strict=True).logits


class BertBase(nn.Module):
    """transformers' BERT for masked words under the names of models/bert_base.pbtxt, where one dense layer makes queries,
    keys and values; every word is asked for, as none of them is masked."""

    LAYERS = {"proj": "attention.output.dense", "ln1": "attention.output.LayerNorm", "fc1": "intermediate.dense",
              "fc2": "output.dense", "ln2": "output.LayerNorm"}

    def __init__(self, words, layers=12, width=768, heads=12):
        super().__init__()
        from transformers import BertConfig, BertForMaskedLM

        published = BertForMaskedLM(BertConfig(
            vocab_size=words, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
            intermediate_size=4 * width, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
            attn_implementation="sdpa"))
        published.bert.embeddings.word_embeddings.padding_idx = None  # every sample fills its row
        self.published = [published]  # not a part of this module, so its own parameters are not among this one's
        self.tok, self.seg = nn.Embedding(words, width), nn.Embedding(2, width)
        self.positions = nn.Parameter(torch.zeros(512, width))
        self.embed = nn.LayerNorm(width)
        self.layers = layers
        for i in range(layers):
            self.add_module(f"block{i}", nn.ModuleDict({
                "qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width), "ln1": nn.LayerNorm(width),
                "fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width), "ln2": nn.LayerNorm(width)}))
        self.transform, self.ln = nn.Linear(width, width), nn.LayerNorm(width)
        self.head = nn.Linear(width, words)
        self.head.weight = self.tok.weight

    def as_published(self):
        tables = {"word": self.tok.weight, "token_type": self.seg.weight, "position": self.positions}
        given = {f"bert.embeddings.{table}_embeddings.weight": rows for table, rows in tables.items()}
        layers = {"bert.embeddings.LayerNorm": self.embed, "cls.predictions.transform.dense": self.transform,
                  "cls.predictions.transform.LayerNorm": self.ln}
        for i in range(self.layers):
            block = getattr(self, f"block{i}")
            layers |= {f"bert.encoder.layer.{i}.{theirs}": block[layer] for layer, theirs in self.LAYERS.items()}
            for kind in ("weight", "bias"):
                parts = getattr(block["qkv"], kind).chunk(3)
                for part, rows in zip(("query", "key", "value"), parts, strict=True):
                    given[f"bert.encoder.layer.{i}.attention.self.{part}.{kind}"] = rows
        for name, layer in layers.items():
            given |= {name + ".weight": layer.weight, name + ".bias": layer.bias}
        return given | {"cls.predictions.bias": self.head.bias} | dict(self.published[0].named_buffers())

    def forward(self, tokens, segments):
        arguments = {"input_ids": tokens, "token_type_ids": segments}
        return functional_call(self.published[0], self.as_published(), (), arguments, strict=True).logits


class Autoencoder(nn.Module):
    """Draws the image that it is given from a few numbers."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(16, 32, 3, 2, 1)
        self.code, self.conv3 = nn.Conv2d(32, 4, 3, padding=1), nn.Conv2d(4, 32, 3, padding=1)
        self.large = nn.ConvTranspose2d(32, 16, 4, 2, 1)
        self.blur, self.fine = nn.Conv2d(16, 1, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, image):
        code = self.code(F.relu(self.conv2(F.relu(self.conv1(F.pixel_unshuffle(image, 2))))))
        large = F.relu(self.large(F.relu(self.conv3(code))))
        blurred = F.interpolate(self.blur(large), scale_factor=2, mode="bilinear", align_corners=False)
        return torch.sigmoid(blurred + F.pixel_shuffle(self.fine(large), 2)), image

    def loss_of(self, drawn, _):
        drawing, image = drawn
        return F.mse_loss(drawing, image)
