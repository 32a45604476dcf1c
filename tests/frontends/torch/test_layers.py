"""The layers and losses of torch.nn: value, gradients by parameters and by inputs, and what a replay gives, are those of torch.autograd."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tapegrad as tg

GENERATOR = torch.Generator().manual_seed(0)


def T(*shape: int) -> Any:
    return torch.randn(*shape, generator=GENERATOR)


def P(*shape: int) -> Any:
    return torch.rand(*shape, generator=GENERATOR)


def N(*shape: int, low: int = 0, high: int = 7) -> Any:
    return torch.randint(low, high, shape, generator=GENERATOR)


def S(*shape: int) -> Any:
    return T(*shape).sign()


WEIGHTS = P(7)

# Layers that draw random numbers: a replay draws others.
DRAWING: dict[str, tuple[Any, ...]] = {
    "LSTM dropout": (lambda: nn.LSTM(3, 4, 2, bidirectional=True, dropout=0.2), T(5, 2, 3)),
    "MultiheadAttention dropout": (lambda: nn.MultiheadAttention(8, 2, dropout=0.1), T(3, 2, 8), T(3, 2, 8), T(3, 2, 8)),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), T(2, 3, 8)),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(8, 2, 16), T(2, 3, 8), T(4, 3, 8)),
    "TransformerEncoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), T(2, 3, 8)),
    "Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True), T(3, 2, 8), T(3, 4, 8)),
    "Dropout": (nn.Dropout, T(5, 4)),
    "Dropout in place": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(inplace=True)), T(5, 4)),
    "Dropout1d": (nn.Dropout1d, T(2, 3, 4)), "Dropout2d": (nn.Dropout2d, T(2, 3, 4, 4)), "Dropout3d": (nn.Dropout3d, T(2, 3, 2, 2, 2)),
    "AlphaDropout": (nn.AlphaDropout, T(5, 4)), "FeatureAlphaDropout": (nn.FeatureAlphaDropout, T(2, 3, 4, 4)),
    "RReLU": (nn.RReLU, T(5, 4)), "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_size=2), T(2, 3, 5, 5)),
}

LAYERS: dict[str, tuple[Any, ...]] = {
    "Linear": (lambda: nn.Linear(4, 3), T(5, 4)), "Linear without bias": (lambda: nn.Linear(4, 3, bias=False), T(4)),
    "Bilinear": (lambda: nn.Bilinear(4, 3, 2), T(5, 4), T(5, 3)), "Identity": (nn.Identity, T(5, 4)),
    "Conv1d": (lambda: nn.Conv1d(2, 3, 3, padding=1), T(2, 2, 8)),
    "Conv1d circular": (lambda: nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), T(2, 2, 8)),
    "Conv2d": (lambda: nn.Conv2d(2, 4, 3, stride=2, groups=2, dilation=2), T(2, 2, 9, 9)),
    "Conv2d same": (lambda: nn.Conv2d(2, 4, 3, padding="same", bias=False), T(2, 2, 9, 9)),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2), T(1, 2, 4, 4, 4)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 3, 3), T(2, 2, 8)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), T(2, 2, 5, 5)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), T(5, 4)), "BatchNorm1d eval": (lambda: nn.BatchNorm1d(4).eval(), T(5, 4)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(2), T(2, 2, 4, 4)), "BatchNorm2d eval": (lambda: nn.BatchNorm2d(2).eval(), T(2, 2, 4, 4)),
    "BatchNorm3d without statistics": (lambda: nn.BatchNorm3d(2, track_running_stats=False), T(2, 2, 2, 2, 2)),
    "LayerNorm": (lambda: nn.LayerNorm(4), T(5, 4)), "RMSNorm": (lambda: nn.RMSNorm(4), T(5, 4)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), T(2, 4, 3, 3)), "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True), T(2, 4, 3, 3)),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), T(2, 4, 3, 3)),
    "RNN": (lambda: nn.RNN(3, 4, 2, nonlinearity="relu"), T(5, 2, 3)), "GRU": (lambda: nn.GRU(3, 4, batch_first=True), T(5, 2, 3), T(1, 5, 4)),
    "LSTM": (lambda: nn.LSTM(3, 4, 2, bidirectional=True), T(5, 2, 3)), "LSTM projected": (lambda: nn.LSTM(3, 4, proj_size=2), T(5, 2, 3)),
    "RNNCell": (lambda: nn.RNNCell(3, 4), T(2, 3)), "GRUCell": (lambda: nn.GRUCell(3, 4), T(2, 3)), "LSTMCell": (lambda: nn.LSTMCell(3, 4), T(2, 3)),
    "Embedding": (lambda: nn.Embedding(7, 3, padding_idx=2), N(2, 5)), "EmbeddingBag": (lambda: nn.EmbeddingBag(7, 3), N(2, 5)),
    "EmbeddingBag offsets": (lambda: nn.EmbeddingBag(7, 3, mode="sum"), N(6), torch.tensor([0, 2])),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2), T(3, 2, 8), T(3, 2, 8), T(3, 2, 8)),
    "MultiheadAttention eval": (lambda: nn.MultiheadAttention(8, 2, batch_first=True).eval(), T(3, 2, 8), T(3, 2, 8), T(3, 2, 8)),
    "TransformerEncoderLayer eval": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), T(2, 3, 8)),
    "Dropout eval": (lambda: nn.Dropout().eval(), T(5, 4)),
    "MaxPool1d": (lambda: nn.MaxPool1d(2), T(2, 3, 8)), "MaxPool2d": (lambda: nn.MaxPool2d(3, stride=2, padding=1), T(2, 3, 5, 5)),
    "MaxPool2d indices": (lambda: nn.MaxPool2d(2, return_indices=True), T(2, 3, 4, 4)), "AvgPool2d": (lambda: nn.AvgPool2d(2), T(2, 3, 4, 4)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(2), T(2, 3, 5, 5)), "LPPool2d": (lambda: nn.LPPool2d(2, 2), P(2, 3, 4, 4)),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d((2, None)), T(2, 3, 5, 5)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), T(2, 4, 3, 3)), "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), T(2, 4, 3, 3)),
    "Fold": (lambda: nn.Fold((4, 4), 2), T(1, 8, 9)), "Unfold": (lambda: nn.Unfold(2), T(1, 2, 4, 4)),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), T(1, 2, 4, 4)), "ZeroPad2d": (lambda: nn.ZeroPad2d(1), T(1, 2, 4, 4)),
    "Flatten": (nn.Flatten, T(2, 3, 4)), "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), T(2, 4)),
    "CosineSimilarity": (nn.CosineSimilarity, T(2, 4), T(2, 4)), "PairwiseDistance": (nn.PairwiseDistance, T(2, 4), T(2, 4)),
    "AdaptiveLogSoftmaxWithLoss": (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 7, [2, 5]), T(5, 4), N(5)),
    "ReLU in place": (lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)), T(5, 4)), "Threshold": (lambda: nn.Threshold(0.1, 2.0), T(5, 4)),
    "Softmax": (lambda: nn.Softmax(1), T(5, 4)), "Softmin": (lambda: nn.Softmin(1), T(5, 4)), "LogSoftmax": (lambda: nn.LogSoftmax(1), T(5, 4)),
    "Softmax2d": (nn.Softmax2d, T(2, 4, 3, 4)),
    **{name: (getattr(nn, name), T(5, 4)) for name in (
        "ReLU", "ReLU6", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Sigmoid", "Tanh", "Softplus", "Softsign", "LogSigmoid", "Hardtanh",
        "Hardswish", "Hardsigmoid", "LeakyReLU", "PReLU", "Tanhshrink", "Softshrink", "Hardshrink", "GLU")},
    "MSELoss": (nn.MSELoss, T(5, 4), T(5, 4)), "L1Loss": (nn.L1Loss, T(5, 4), T(5, 4)), "SmoothL1Loss": (nn.SmoothL1Loss, T(5, 4), T(5, 4)),
    "HuberLoss": (nn.HuberLoss, T(5, 4), T(5, 4)), "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(label_smoothing=0.1), T(5, 7), N(5)),
    "CrossEntropyLoss weighted": (lambda: nn.CrossEntropyLoss(WEIGHTS, ignore_index=3), T(5, 7), N(5)),
    "NLLLoss": (nn.NLLLoss, T(5, 7), N(5)), "BCELoss": (nn.BCELoss, P(5, 4), P(5, 4)), "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss, T(5, 4), P(5, 4)),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), T(5, 4), P(5, 4)), "PoissonNLLLoss": (nn.PoissonNLLLoss, T(5, 4), P(5, 4)),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, T(5, 4), T(5, 4), P(5, 4)), "HingeEmbeddingLoss": (nn.HingeEmbeddingLoss, T(5, 4), S(5, 4)),
    "MarginRankingLoss": (nn.MarginRankingLoss, T(5), T(5), S(5)), "TripletMarginLoss": (nn.TripletMarginLoss, T(5, 4), T(5, 4), T(5, 4)),
    "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, T(5, 4), T(5, 4), S(5)), "MultiMarginLoss": (nn.MultiMarginLoss, T(5, 7), N(5)),
    "MultiLabelSoftMarginLoss": (nn.MultiLabelSoftMarginLoss, T(5, 4), P(5, 4).round()), "MultiLabelMarginLoss": (nn.MultiLabelMarginLoss, T(5, 7), N(5, 7)),
    "TripletMarginWithDistanceLoss": (nn.TripletMarginWithDistanceLoss, T(5, 4), T(5, 4), T(5, 4)),
    "CTCLoss": (nn.CTCLoss, T(8, 2, 7).log_softmax(-1), N(2, 3, low=1), torch.tensor([8, 8]), torch.tensor([3, 3])),
}


def total(y: Any) -> Any:
    """Return a scalar that depends on each tensor of a result."""
    if isinstance(y, torch.Tensor):
        return (y * y).sum() if y.is_floating_point() else 0.0
    return sum(total(part) for part in y if part is not None)


def loss(module: Any, *xs: Any) -> Any:
    return total(module(*xs))


@pytest.mark.parametrize("name", [*LAYERS, *DRAWING])
def test_a_layer(name: str) -> None:
    make, *xs = {**LAYERS, **DRAWING}[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of its own nested tensors and of what it computes without oneDNN
        torch.manual_seed(1)
        module = make()
        reference, given = copy.deepcopy(module), [x.clone().requires_grad_() if x.is_floating_point() else x for x in xs]
        torch.manual_seed(2)
        wanted = loss(reference, *given)
        wanted.backward()
        torch.manual_seed(2)
        found = tg.grad(loss, module, *xs)
        compare(found, wanted, reference, given)
        torch.testing.assert_close(module.state_dict(), reference.state_dict())  # its statistics are those of one call
        tape = tg.gradtape(loss, module, *xs).check()
        if name in LAYERS:
            compare(tape.play(copy.deepcopy(module), *xs), wanted, reference, given)


def compare(found: Any, wanted: Any, module: Any, given: list[Any]) -> None:
    value, (_, gradients, *dxs) = found
    torch.testing.assert_close(value, wanted.detach())
    assert list(gradients) == [name for name, _ in module.named_parameters()]
    for name, p in module.named_parameters():
        torch.testing.assert_close(gradients[name], torch.zeros_like(p) if p.grad is None else p.grad)  # a part that was not used
    for dx, x in zip(dxs, given):
        if x.is_floating_point():
            torch.testing.assert_close(dx, torch.zeros_like(x) if x.grad is None else x.grad)


@pytest.mark.parametrize("name", ["layer_norm", "batch_norm", "instance_norm"])
def test_third_derivatives_that_torch_has_wrong_are_refused(name: str) -> None:
    shape, w = (1, 2, 4), torch.linspace(1.0, 2.0, 8, dtype=torch.float64).reshape(1, 2, 4)
    x = torch.linspace(0.1, 1.7, 8, dtype=torch.float64).reshape(shape) ** 1.3
    norm = {"layer_norm": lambda x: F.layer_norm(x, (4,)), "instance_norm": F.instance_norm,
            "batch_norm": lambda x: F.batch_norm(x[0].T, None, None, training=True).T[None]}[name]

    def f(t: Any) -> Any:
        return (norm(x + t * torch.cos(w * 3.0)) * w).pow(3).sum()
    first, second = (lambda t: tg.gradient(f, t)[0]), (lambda t: tg.gradient(first, t)[0])
    t, h = torch.tensor(0.0, dtype=torch.float64), 1e-5
    assert abs(float(second(t)) - float(first(t + h) - first(t - h)) / (2 * h)) < 1e-5 * abs(float(second(t)))
    one = torch.tensor(1.0, dtype=torch.float64)
    for call in (lambda: tg.gradient(second, t), lambda: tg.jvp(lambda t: tg.jvp(f, (t,), (one,))[1], (t,), (one,))):
        with pytest.raises(tg.MissingRule, match=f"no gradient of {name}_vjp_vjp.*third derivatives of it are wrong"):
            call()
