"""The functions of torch.nn.functional, with samples: first those that are ops or composites, then those that are recorded whole."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

GENERATOR = torch.Generator().manual_seed(0)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def unit(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=GENERATOR, dtype=torch.float64) * 0.9 + 0.05


def classes(n: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, n, shape, generator=GENERATOR)


IGNORED = torch.tensor([1, -100, 0, 2, -100])
MEAN, VAR = draw(4), unit(4)
KINKS = torch.tensor([-6.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 6.0, 25.0], dtype=torch.float64)
X, Y = draw(5, 4), draw(5, 4)
IMAGE, LINE, SOLID = draw(2, 4, 6, 7), draw(2, 4, 9), draw(1, 2, 4, 5, 4)

# name: (function, *arguments); a name that ends in `!` is not smooth
ACTIVATIONS: dict[str, Any] = {
    "relu!": F.relu, "relu6!": F.relu6, "leaky_relu!": lambda x: F.leaky_relu(x, 0.2), "elu": lambda x: F.elu(x, 0.7), "selu": F.selu,
    "celu": lambda x: F.celu(x, 1.3), "gelu": F.gelu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "mish": F.mish,
    "softplus": lambda x: F.softplus(x, 2.0, 5.0), "softsign!": F.softsign, "hardtanh!": lambda x: F.hardtanh(x, -0.5, 3.0), "hardsigmoid!": F.hardsigmoid,
    "hardswish!": F.hardswish, "tanhshrink": F.tanhshrink, "threshold!": lambda x: F.threshold(x, 0.5, 2.0), "logsigmoid": F.logsigmoid,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "hardshrink!": F.hardshrink, "softshrink!": lambda x: F.softshrink(x, 1.0),
    "torch.relu!": torch.relu, "Tensor.relu!": lambda x: x.relu(), "torch.celu": torch.celu, "torch.selu": torch.selu,
    "softmax": lambda x: F.softmax(x, 0), "log_softmax": lambda x: F.log_softmax(x, -1), "softmin": lambda x: F.softmin(x, dim=0),
    "in place!": lambda x: F.leaky_relu(x * 2, 0.1, True) + F.elu(x + 1, inplace=True) + torch.relu_(x * 3) + F.hardtanh(x - 1, inplace=True),
}
LAYERS: dict[str, tuple[Any, ...]] = {
    "linear": (F.linear, draw(3, 2, 4), draw(5, 4), draw(5)), "linear of a vector": (F.linear, draw(4), draw(5, 4), draw(5)),
    "linear without bias": (F.linear, draw(3, 4), draw(5, 4)), "linear of nothing": (F.linear, draw(0, 4), draw(5, 4), draw(5)),
    "linear of a strided": (lambda x, w: F.linear(x.mT, w.T), draw(2, 4, 3), draw(4, 5)), "bilinear": (F.bilinear, draw(3, 4), draw(3, 2), draw(5, 4, 2), draw(5)),
    "glu": (lambda x: F.glu(x, 1), X), "prelu": (F.prelu, X, draw(4)), "prelu one!": (F.prelu, X, draw(1)),
    "softmax in another dtype": (lambda x: F.softmax(x, 1, dtype=torch.float64).log(), X),
    "embedding": (lambda w: F.embedding(torch.tensor([[1, 2, 1], [0, 1, 3]]), w, padding_idx=1), draw(4, 3)),
    "embedding by frequency": (lambda w: F.embedding(torch.tensor([1, 2, 1]), w, scale_grad_by_freq=True), draw(4, 3)),
    "embedding from the end": (lambda w: F.embedding(torch.tensor([1, 3, 3]), w, padding_idx=-1), draw(4, 3)),
    "attention": (F.scaled_dot_product_attention, draw(2, 3, 4, 5), draw(2, 3, 6, 5), draw(2, 3, 6, 5)),
    "attention causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3), draw(2, 3, 4, 5), draw(2, 3, 4, 5), draw(2, 3, 4, 5)),
    "attention masked": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), draw(2, 4, 5), draw(2, 6, 5), draw(2, 6, 5), draw(4, 6)),
}
LOSSES: dict[str, tuple[Any, ...]] = {
    "mse_loss": (F.mse_loss, X, Y), "l1_loss!": (F.l1_loss, X, Y), "smooth_l1_loss!": (lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), X, Y),
    "smooth_l1_loss beta 0!": (lambda x, y: F.smooth_l1_loss(x, y, beta=0.0), X, Y), "huber_loss!": (lambda x, y: F.huber_loss(x, y, delta=0.5), X, Y),
    "mse_loss weighted": (lambda x, y, w: F.mse_loss(x, y, weight=w), X, Y, unit(5, 4)),
    "cross_entropy": (F.cross_entropy, X, classes(4, 5)), "cross_entropy ignored": (F.cross_entropy, X, IGNORED),
    "cross_entropy none": (lambda x, t: F.cross_entropy(x, t, reduction="none", ignore_index=1), X, classes(4, 5)),
    "cross_entropy sum": (lambda x, t: F.cross_entropy(x, t, reduction="sum"), IMAGE, classes(4, 2, 6, 7)),
    "cross_entropy of one": (F.cross_entropy, draw(4), torch.tensor(2)),
    "cross_entropy smoothed": (lambda x: F.cross_entropy(x, IGNORED, label_smoothing=0.1), X),
    "cross_entropy weighted": (lambda x: F.cross_entropy(x, IGNORED, torch.tensor([0.2, 1.0, 2.0, 0.5], dtype=x.dtype)), X),
    "cross_entropy weighted and smoothed": (lambda x: F.cross_entropy(x, IGNORED, torch.tensor([0.2, 1.0, 2.0, 0.5], dtype=x.dtype), label_smoothing=0.3), X),
    "cross_entropy smoothed sum": (lambda x: F.cross_entropy(x, IGNORED, reduction="sum", label_smoothing=0.1), X),
    "cross_entropy smoothed none": (lambda x: F.cross_entropy(x, IGNORED, reduction="none", label_smoothing=0.1), X),
    "cross_entropy of probabilities": (F.cross_entropy, X, unit(5, 4)),
    "cross_entropy of probabilities, weighted": (lambda x, t: F.cross_entropy(x, t, torch.arange(1.0, 5.0, dtype=x.dtype), label_smoothing=0.2), X, unit(5, 4)),
    "cross_entropy of probabilities, none": (lambda x, t: F.cross_entropy(x, t, reduction="none"), IMAGE, unit(2, 4, 6, 7)),
    "nll_loss": (F.nll_loss, X, classes(4, 5)), "nll_loss sum": (lambda x, t: F.nll_loss(x, t, reduction="sum"), X, IGNORED),
    "nll_loss weighted": (lambda x: F.nll_loss(x, IGNORED, torch.arange(1.0, 5.0, dtype=x.dtype), reduction="none"), X),
    "binary_cross_entropy": (F.binary_cross_entropy, unit(5, 4), unit(5, 4)),
    "binary_cross_entropy weighted": (lambda x, t: F.binary_cross_entropy(x, t, torch.arange(1.0, 5.0, dtype=x.dtype)), unit(5, 4), unit(5, 4)),
    "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, X, unit(5, 4)),
    "binary_cross_entropy_with_logits weighted": (lambda x, t: F.binary_cross_entropy_with_logits(x, t, VAR.to(x.dtype), pos_weight=VAR.to(x.dtype) + 1), X, unit(5, 4)),
    "kl_div": (lambda x, t: F.kl_div(x, t, reduction="batchmean"), X, unit(5, 4)),
    "kl_div of logs": (lambda x, t: F.kl_div(x, t, reduction="sum", log_target=True), X, Y),
    "poisson_nll_loss": (F.poisson_nll_loss, X, unit(5, 4)), "poisson_nll_loss of rates": (lambda x, t: F.poisson_nll_loss(x, t, log_input=False), unit(5, 4), unit(5, 4)),
    "poisson_nll_loss full": (lambda x, t: F.poisson_nll_loss(x, t, full=True), X, unit(5, 4) * 5),
    "gaussian_nll_loss": (F.gaussian_nll_loss, X, Y, unit(5, 4)),
    "hinge_embedding_loss!": (lambda x: F.hinge_embedding_loss(x, (Y > 0).to(x.dtype) * 2 - 1), X), "soft_margin_loss": (lambda x: F.soft_margin_loss(x, Y.sign().to(x.dtype)), X),
    "margin_ranking_loss!": (lambda x, y: F.margin_ranking_loss(x, y, Y[:, 0].sign().to(x.dtype), margin=0.3), draw(5), draw(5)),
    "multi_margin_loss!": (lambda x: F.multi_margin_loss(x, torch.tensor([0, 1, 2, 3, 0])), X),
    "multilabel_soft_margin_loss": (lambda x: F.multilabel_soft_margin_loss(x, (Y > 0).to(x.dtype)), X),
    "cosine_embedding_loss!": (lambda x, y: F.cosine_embedding_loss(x, y, torch.tensor([1, -1, 1, -1, 1])), X, Y),
    "triplet_margin_loss!": (F.triplet_margin_loss, X, Y, draw(5, 4)), "cosine_similarity": (F.cosine_similarity, X, Y),
    "pairwise_distance": (F.pairwise_distance, X, Y), "ctc_loss!": (lambda x: F.ctc_loss(F.log_softmax(x, -1), torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2])), draw(5, 1, 4)),
}
NORMS: dict[str, tuple[Any, ...]] = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), X, draw(4), draw(4)), "layer_norm plain": (lambda x: F.layer_norm(x, (6, 7), eps=0.1), IMAGE),
    "layer_norm weight": (lambda x, w: F.layer_norm(x, (4,), w), X, draw(4)), "layer_norm of nothing": (lambda x, w, b: F.layer_norm(x, (4,), w, b), draw(0, 4), draw(4), draw(4)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w), X, draw(4)), "rms_norm plain": (lambda x: F.rms_norm(x, [4], eps=0.1), X),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), IMAGE, draw(4), draw(4)), "group_norm plain": (lambda x: F.group_norm(x, 4), LINE),
    "group_norm strided": (lambda x, w, b: F.group_norm(x.transpose(2, 3), 2, w, b), IMAGE, draw(4), draw(4)),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, weight=w, bias=b), IMAGE, draw(4), draw(4)),
    "instance_norm running": (lambda x: F.instance_norm(x, MEAN.to(x.dtype), VAR.to(x.dtype), use_input_stats=False), IMAGE),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), IMAGE, draw(4), draw(4)),
    "batch_norm of rows": (lambda x: F.batch_norm(x, None, None, training=True, eps=0.1), X),
    "batch_norm running": (lambda x, w, b: F.batch_norm(x, MEAN.to(x.dtype), VAR.to(x.dtype), w, b), IMAGE, draw(4), draw(4)),
    "normalize": (lambda x: F.normalize(x, dim=0), X), "normalize p 3": (lambda x: F.normalize(x, 3.0), X), "local_response_norm": (lambda x: F.local_response_norm(x, 3), IMAGE),
}
CONVOLUTIONS: dict[str, tuple[Any, ...]] = {
    "conv1d": (F.conv1d, LINE, draw(3, 4, 3), draw(3)), "conv2d": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=(1, 2)), IMAGE, draw(3, 4, 3, 2), draw(3)),
    "conv3d": (lambda x, w: F.conv3d(x, w, padding=1), SOLID, draw(3, 2, 3, 2, 2)), "conv2d groups": (lambda x, w: F.conv2d(x, w, groups=2, dilation=2), IMAGE, draw(6, 2, 2, 3)),
    "conv2d depthwise": (lambda x, w, b: F.conv2d(x, w, b, groups=4), IMAGE, draw(4, 1, 3, 3), draw(4)),
    "conv2d same": (lambda x, w: F.conv2d(x, w, padding="same", dilation=(1, 2)), IMAGE, draw(3, 4, 3, 3)), "conv1d valid": (lambda x, w: F.conv1d(x, w, padding="valid"), LINE, draw(3, 4, 3)),
    "conv1d same, even": (lambda x, w: F.conv1d(x, w, padding="same"), LINE, draw(3, 4, 4)), "conv2d of one": (F.conv2d, draw(4, 6, 7), draw(3, 4, 3, 3), draw(3)),
    "conv2d strided": (lambda x, w: F.conv2d(x.transpose(2, 3), w.transpose(2, 3), stride=(3, 2)), IMAGE, draw(3, 4, 3, 2)), "conv2d of none": (F.conv2d, draw(0, 4, 6, 7), draw(3, 4, 3, 3)),
    "conv2d circular": (lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), w), IMAGE, draw(3, 4, 3, 3)),
    "conv_transpose1d": (lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1), LINE, draw(4, 3, 3), draw(3)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=(2, 1), groups=2, dilation=(1, 2)), IMAGE, draw(4, 3, 2, 3)),
    "conv_transpose3d of one": (F.conv_transpose3d, draw(2, 3, 4, 3), draw(2, 3, 2, 2, 2)),
    "fold": (lambda x: F.fold(F.unfold(x, 2) * 2, (6, 7), 2), IMAGE), "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2).square(), IMAGE),
    "pad": (lambda x: F.pad(x, (1, -1, 2, 0), value=3.0).square() + F.pad(x, (1, -1, 2, 0)), IMAGE), "pad reflect": (lambda x: F.pad(x, (1, 2), mode="reflect").square(), LINE),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear").square(), IMAGE), "interpolate nearest": (lambda x: F.interpolate(x, size=5).square(), LINE),
    "grid_sample!": (lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False), IMAGE, draw(2, 3, 3, 2)),
}
POOLS: dict[str, tuple[Any, ...]] = {
    "max_pool1d!": (lambda x: F.max_pool1d(x, 3, 2, 1), LINE), "max_pool2d!": (lambda x: F.max_pool2d(x, (2, 3), ceil_mode=True), IMAGE),
    "max_pool3d!": (lambda x: F.max_pool3d(x, 2, 1), SOLID), "max_pool2d of one!": (lambda x: F.max_pool2d(x, 2, dilation=2), draw(4, 6, 7)),
    "max_pool2d of ties!": (lambda x: F.max_pool2d(x.round(), 3).square(), IMAGE), "max_pool2d indices!": (lambda x: F.max_pool2d(x, 2, return_indices=True)[0], IMAGE),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 2, 1).square(), LINE), "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False, ceil_mode=True).square(), IMAGE),
    "avg_pool2d divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3).square(), IMAGE), "avg_pool3d": (lambda x: F.avg_pool3d(x, (1, 2, 2)).square(), SOLID),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 4).square(), LINE), "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (None, 3)).square(), IMAGE),
    "adaptive_avg_pool2d to one": (lambda x: F.adaptive_avg_pool2d(x, 1).square(), IMAGE), "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, 2).square(), SOLID),
    "adaptive_max_pool2d!": (lambda x: F.adaptive_max_pool2d(x, 3), IMAGE), "lp_pool2d": (lambda x: F.lp_pool2d(x.exp(), 3, 2), IMAGE),
}
PROGRAMS: dict[str, tuple[Any, ...]] = {**{name: (fn, X) for name, fn in ACTIVATIONS.items()}, **LAYERS, **LOSSES, **NORMS, **CONVOLUTIONS, **POOLS}
