"""Models of public torch libraries, made from configurations with random weights: a loss of each, what it is called
with, and another batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

BATCH, LENGTH, WORDS = 8, 64, 512
WIDTH = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = {"vocab_size": WORDS, "bos_token_id": 1, "eos_token_id": 2}


class Built(NamedTuple):
    """A loss, what it is called with, of which the first is a module to differentiate by, and another batch."""

    loss: Callable[..., Any]
    args: tuple[Any, ...]
    other: tuple[Any, ...]


class Model(NamedTuple):
    """A row of the table: the package that it is of, and what builds it."""

    name: str
    package: str
    build: Callable[[], Built]


MODELS: dict[str, Model] = {}


def model(package: str) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Enter the function that builds a model under the name of its package and its own."""
    def enter(build: Callable[[], Built]) -> Callable[[], Built]:
        name = f"{package}/{build.__name__}"
        MODELS[name] = Model(name, package, build)
        return build
    return enter


def batches(loss: Callable[..., Any], module: Any, draw: Callable[[], tuple[Any, ...]]) -> Built:
    """Return a loss with two batches."""
    return Built(loss, (module, *draw()), draw())


def words(*shape: int) -> Any:
    """Return random words."""
    return torch.randint(3, WORDS, shape)


def classes(number: int, *shape: int) -> Any:
    """Return random labels."""
    return torch.randint(0, number, shape)


def images(size: int = 32) -> Any:
    """Return random images."""
    return torch.rand(BATCH, 3, size, size)


# -- Hugging Face


@model("transformers")
def gpt2() -> Built:
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(n_layer=2, n_embd=128, n_head=4, n_positions=LENGTH, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0, **TEXT)
    return batches(lambda m, x: m(input_ids=x, labels=x).loss, GPT2LMHeadModel(config), lambda: (words(BATCH, LENGTH),))


@model("transformers")
def bert() -> Built:
    from transformers import BertConfig, BertForMaskedLM
    module = BertForMaskedLM(BertConfig(intermediate_size=512, max_position_embeddings=LENGTH, vocab_size=WORDS,
                                        **WIDTH)).eval()
    return batches(lambda m, x, y: m(input_ids=x, labels=y).loss, module,
                   lambda: (words(BATCH, LENGTH), words(BATCH, LENGTH)))


@model("transformers")
def llama() -> Built:
    from transformers import LlamaConfig, LlamaForCausalLM
    module = LlamaForCausalLM(LlamaConfig(num_key_value_heads=2, intermediate_size=344, max_position_embeddings=LENGTH,
                                          **TEXT, **WIDTH))
    return batches(lambda m, x: m(input_ids=x, labels=x).loss, module, lambda: (words(BATCH, LENGTH),))


@model("transformers")
def t5() -> Built:
    from transformers import T5Config, T5ForConditionalGeneration
    config = T5Config(num_layers=2, d_model=128, num_heads=4, d_kv=32, d_ff=512, vocab_size=WORDS, dropout_rate=0.0,
                      decoder_start_token_id=0)
    module = T5ForConditionalGeneration(config)
    return batches(lambda m, x, y: m(input_ids=x, labels=y).loss, module,
                   lambda: (words(BATCH, LENGTH), words(BATCH, 24)))


@model("transformers")
def vit() -> Built:
    from transformers import ViTConfig, ViTForImageClassification
    module = ViTForImageClassification(ViTConfig(intermediate_size=512, image_size=32, patch_size=4, num_labels=10,
                                                 **WIDTH))
    return batches(lambda m, x, y: F.cross_entropy(m(pixel_values=x).logits, y), module,
                   lambda: (images(), classes(10, BATCH)))


# -- differential equations


class Field(nn.Module):
    """The right-hand side of an equation of eight unknowns."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 8))

    def forward(self, t: Any, y: Any) -> Any:
        return self.net(y ** 3)


def solved(solve: Callable[..., Any], **how: Any) -> Built:
    """Return the mean square of a solution at six times."""
    times = torch.linspace(0.0, 1.0, 6)
    return batches(lambda field, y: (solve(field, y, times, **how) ** 2).mean(), Field(), lambda: (torch.randn(64, 8),))


@model("torchdiffeq")
def odeint_rk4() -> Built:
    from torchdiffeq import odeint
    return solved(odeint, method="rk4", options={"step_size": 0.05})


@model("torchdiffeq")
def odeint_dopri5() -> Built:
    from torchdiffeq import odeint
    return solved(odeint, method="dopri5", rtol=1e-4, atol=1e-5)


@model("torchdiffeq")
def odeint_adjoint() -> Built:
    from torchdiffeq import odeint_adjoint as solve
    return solved(solve, method="rk4", options={"step_size": 0.05})


# -- Gaussian processes, probabilistic programs


@model("gpytorch")
def exact_gp() -> Built:
    import gpytorch

    class GP(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, x: Any, y: Any, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))
    x = torch.linspace(0.0, 1.0, 200)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, GP(x, torch.sin(6.0 * x), likelihood))
    return batches(lambda m, y: -m(m.model(*m.model.train_inputs), y), marginal,
                   lambda: (torch.sin(6.0 * x) + 0.1 * torch.randn(200),))


class Guide(nn.Module):
    """A mean-field normal distribution of four weights."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.scale = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4))


@model("pyro-ppl")
def elbo() -> Built:
    import pyro
    from pyro.distributions import Normal

    def loss(guide: Any, x: Any, y: Any) -> Any:
        def program() -> None:
            w = pyro.sample("w", Normal(torch.zeros(4), torch.ones(4)).to_event(1))
            with pyro.plate("data", len(x)):
                pyro.sample("y", Normal(x @ w, 0.5), obs=y)

        def approximation() -> None:
            pyro.sample("w", Normal(guide.mean, guide.scale.exp()).to_event(1))
        torch.manual_seed(3)
        return pyro.infer.Trace_ELBO().differentiable_loss(program, approximation)
    return batches(loss, Guide(), lambda: (torch.randn(200, 4), torch.randn(200)))


# -- images


class Filter(nn.Module):
    """Sharpens an image, and adds its edges."""

    def __init__(self) -> None:
        super().__init__()
        self.amount, self.mix = nn.Parameter(torch.tensor(0.5)), nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        from kornia import color, filters
        blurred, slope = filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)), filters.spatial_gradient(x).abs().mean(2)
        return (x + self.amount * (x - blurred) + self.mix.view(1, 3, 1, 1) * filters.sobel(x)
                + color.rgb_to_grayscale(slope))


class Warp(nn.Module):
    """Moves an image by an affine map, a homography, a rotation."""

    def __init__(self) -> None:
        super().__init__()
        self.affine = nn.Parameter((torch.eye(2, 3) + 0.02 * torch.randn(2, 3)).repeat(BATCH, 1, 1))
        self.homography = nn.Parameter((torch.eye(3) + 0.001 * torch.randn(3, 3)).repeat(BATCH, 1, 1))
        self.angle = nn.Parameter(10.0 * torch.randn(BATCH))

    def forward(self, x: Any) -> Any:
        from kornia.geometry import transform
        size = tuple(x.shape[-2:])
        return transform.rotate(transform.warp_perspective(transform.warp_affine(x, self.affine, size), self.homography,
                                                           size), self.angle)


@model("kornia")
def filters() -> Built:
    import kornia  # noqa: F401
    return batches(lambda m, x, y: F.mse_loss(m(x), y), Filter(), lambda: (images(64), images(64)))


@model("kornia")
def warps() -> Built:
    from kornia.losses import ssim_loss
    return batches(lambda m, x, y: ssim_loss(m(x), y, 5), Warp(), lambda: (images(64), images(64)))


class Attention(nn.Module):
    """Attention of patches, all of its shapes by einops."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.qkv, self.out = nn.Linear(48, 128), nn.Linear(128, 384), nn.Linear(128, 128)
        self.token = nn.Parameter(torch.randn(1, 1, 128))

    def forward(self, x: Any) -> Any:
        from einops import einsum, rearrange, reduce, repeat
        x = self.patch(rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4))
        x = torch.cat([repeat(self.token, "1 1 d -> b 1 d", b=x.shape[0]), x], 1)
        q, k, v = rearrange(self.qkv(x), "b n (three h d) -> three b h n d", three=3, h=4)
        weights = (einsum(q, k, "b h i d, b h j d -> b h i j") / 32 ** 0.5).softmax(-1)
        return reduce(self.out(rearrange(weights @ v, "b h n d -> b n (h d)")), "b n d -> b d", "mean")


@model("einops")
def attention() -> Built:
    import einops  # noqa: F401
    return batches(lambda m, x, y: F.mse_loss(m(x), y), Attention(), lambda: (images(), torch.randn(BATCH, 128)))


@model("einops")
def layers() -> Built:
    from einops.layers.torch import Rearrange, Reduce
    module = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.GELU(),
                           Reduce("b c (h p) (w q) -> b c h w", "max", p=2, q=2),
                           Rearrange("b c h w -> b (c h w)"), nn.Linear(16 * 256, 10))
    return batches(lambda m, x, y: F.cross_entropy(m(x), y), module, lambda: (images(), classes(10, BATCH)))


# -- graphs

NODES = 2000


class Convolutions(nn.Module):
    """Two graph convolutions."""

    def __init__(self) -> None:
        super().__init__()
        from torch_geometric.nn import GCNConv
        self.one, self.two = GCNConv(32, 64), GCNConv(64, 7)

    def forward(self, x: Any, edges: Any) -> Any:
        return self.two(self.one(x, edges).relu(), edges)


class Pooled(nn.Module):
    """Attention along edges, and a mean for each graph."""

    def __init__(self) -> None:
        super().__init__()
        from torch_geometric.nn import GATConv, SAGEConv
        self.one, self.two, self.out = GATConv(32, 16, heads=4), SAGEConv(64, 64), nn.Linear(64, 7)

    def forward(self, x: Any, edges: Any, graphs: Any) -> Any:
        from torch_geometric.nn import global_mean_pool
        return self.out(global_mean_pool(self.two(self.one(x, edges).relu(), edges).relu(), graphs))


@model("torch_geometric")
def gcn() -> Built:
    edges = classes(NODES, 2, 5 * NODES)
    return batches(lambda m, x, edges, y: F.cross_entropy(m(x, edges), y), Convolutions(),
                   lambda: (torch.randn(NODES, 32), edges, classes(7, NODES)))


@model("torch_geometric")
def gat() -> Built:
    edges, graphs = classes(NODES, 2, 5 * NODES), torch.arange(NODES) // 50
    return batches(lambda m, x, edges, graphs, y: F.cross_entropy(m(x, edges, graphs), y), Pooled(),
                   lambda: (torch.randn(NODES, 32), edges, graphs, classes(7, NODES // 50)))
