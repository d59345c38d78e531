"""The models of _models_jax in PyTorch.

Each function returns a call without arguments and, if ONNX can express it, the module and its
inputs.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Call = Callable[[], Any]


@dataclass(frozen=True)
class Counterpart:
    """A PyTorch model; `module` with its `inputs` is None for a training step."""

    call: Call
    module: nn.Module | None = None
    inputs: tuple[Any, ...] = ()


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int, *, project: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)),
        )
        cut = (nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        self.short = nn.Sequential(*cut) if project else nn.Identity()

    def forward(self, x: Any) -> Any:
        return functional.relu(self.short(x) + self.body(x))


def _resnet() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for k in range(count):
            width, stride = 64 * 2**stage, 2 if stage > 0 and k == 0 else 1
            layers.append(Bottleneck(channels, width, stride, project=k == 0))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class Layer(nn.Module):
    def __init__(self, *, causal: bool = False, norm_first: bool = True) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(768), nn.LayerNorm(768)
        self.qkv, self.out = nn.Linear(768, 3 * 768), nn.Linear(768, 768)
        gelu = nn.GELU("tanh" if causal else "none")
        self.mlp = nn.Sequential(nn.Linear(768, 3072), gelu, nn.Linear(3072, 768))
        self.causal, self.norm_first = causal, norm_first

    def attention(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(x).split(width, -1)
        q, k, v = (p.view(batch, length, 12, 64).transpose(1, 2) for p in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Any) -> Any:
        if self.norm_first:
            x = x + self.attention(self.first(x))
            return x + self.mlp(self.second(x))
        x = self.first(x + self.attention(x))
        return self.second(x + self.mlp(x))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 768, 16, 16), nn.LayerNorm(768)
        self.start, self.places = nn.Parameter(torch.zeros(1, 1, 768)), nn.Parameter(torch.zeros(1, 197, 768))
        self.layers, self.head = nn.Sequential(*(Layer() for _ in range(12))), nn.Linear(768, 1000)

    def forward(self, image: Any) -> Any:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.start.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(30522, 768), nn.LayerNorm(768)
        self.places = nn.Parameter(torch.zeros(128, 768))
        self.layers = nn.Sequential(*(Layer(norm_first=False) for _ in range(12)))

    def forward(self, tokens: Any) -> Any:
        return self.layers(self.norm(self.words(tokens) + self.places))


class Gpt2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(50257, 768), nn.LayerNorm(768)
        self.places = nn.Parameter(torch.zeros(128, 768))
        self.layers = nn.Sequential(*(Layer(causal=True) for _ in range(12)))

    def forward(self, tokens: Any) -> Any:
        x = self.layers(self.words(tokens) + self.places)
        return self.norm(x) @ self.words.weight.T


class _Applied(nn.Module):
    """A function as a module, for the exporter."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class _Lstm(nn.Module):
    """Only the outputs, as flax's RNN returns them."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(256, 256)

    def forward(self, x: Any) -> Any:
        return self.cell(x)[0]


def _forward(module: nn.Module, *inputs: Any, exported: bool = True) -> Counterpart:
    module.eval()

    def call() -> Any:
        with torch.inference_mode():
            return module(*inputs)

    return Counterpart(call, module if exported else None, inputs)


def resnet(batch: int) -> Counterpart:
    return _forward(_resnet(), torch.randn(batch, 3, 224, 224))


def vit() -> Counterpart:
    return _forward(ViT(), torch.randn(1, 3, 224, 224))


def bert() -> Counterpart:
    return _forward(Bert(), torch.randint(30522, (1, 128)))


def gpt2() -> Counterpart:
    return _forward(Gpt2(), torch.randint(50257, (1, 128)))


def gpt2_train() -> Counterpart:
    model, text = Gpt2(), torch.randint(50257, (1, 128))
    return _train(model, lambda: functional.cross_entropy(model(text)[0, :-1], text[0, 1:]))


def mlp_train() -> Counterpart:
    layers = [m for _ in range(4) for m in (nn.Linear(1024, 1024), nn.ReLU())][:-1]
    model, (x, y) = nn.Sequential(*layers), torch.randn(2, 256, 1024)
    return _train(model, lambda: functional.mse_loss(model(x), y))


def _train(model: nn.Module, loss: Call) -> Counterpart:
    adam = torch.optim.Adam(model.parameters(), 1e-3)

    def step() -> Any:
        adam.zero_grad()
        value = loss()
        value.backward()
        adam.step()
        return value

    return Counterpart(step)


def matmul(n: int, kind: str) -> Counterpart:
    if kind == "int8":
        a, b = torch.randint(-128, 128, (2, n, n), dtype=torch.int8)
        with torch.inference_mode():
            return Counterpart(lambda: torch._int_mm(a, b))  # noqa: SLF001 - the only product of int8
    a, b = torch.randn(2, n, n, dtype=getattr(torch, kind))
    return _forward(_Applied(torch.matmul), a, b)


def matvec() -> Counterpart:
    return _forward(_Applied(torch.matmul), torch.randn(1, 768), torch.randn(768, 50257))


def causal_attention() -> Counterpart:
    q, k, v = torch.randn(3, 1, 12, 1024, 64)
    attend = functional.scaled_dot_product_attention
    return _forward(_Applied(lambda q, k, v: attend(q, k, v, is_causal=True)), q, k, v)


def lstm(batch: int) -> Counterpart:
    return _forward(_Lstm(), torch.randn(100, batch, 256))


def onnx_bytes(module: nn.Module, inputs: tuple[Any, ...]) -> bytes:
    """The module in ONNX; weights are initializers."""
    file = io.BytesIO()
    torch.onnx.export(module, inputs, file, dynamo=False, opset_version=18)
    return file.getvalue()


def integer_product(n: int) -> bytes:
    """A product of int8 in ONNX: PyTorch's own has no export."""
    from onnx import TensorProto, helper

    a, b = (helper.make_tensor_value_info(k, TensorProto.INT8, (n, n)) for k in "ab")
    c = helper.make_tensor_value_info("c", TensorProto.INT32, (n, n))
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["a", "b"], ["c"])], "product", [a, b], [c])
    model: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    ).SerializeToString()
    return model
