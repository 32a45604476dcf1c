"""The transformer block as one would write it in PyTorch; tapegrad differentiates the same source."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bench.problems.problem import Data


class Block(nn.Module):
    """Attention and a perceptron, each behind a norm and beside a residual, between an embedding and
    the scores of each token.
    """

    def __init__(self, width: int, heads: int, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores (batch, length, vocabulary) of what follows each of `tokens` (batch, length); each
        sees what came before it.
        """
        x = self.embedding(tokens)
        h = self.norm1(x)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], dtype=x.dtype)
        x = x + self.attention(h, h, h, attn_mask=mask, is_causal=True, need_weights=False)[0]
        return self.out(x + self.mlp(self.norm2(x)))  # type: ignore[no-any-return]


def objective(block: nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of the labels."""
    return cross_entropy(block(tokens).flatten(0, 1), labels.flatten())


def arguments(data: Data) -> tuple[Any, ...]:
    """Return the objective's arguments, the module of the weights among `data` first."""
    vocabulary, width = data["embedding.weight"].shape
    block = Block(width, data["heads"], vocabulary)
    block.load_state_dict({name: torch.tensor(data[name]) for name, _ in block.named_parameters()}, assign=True)
    return block, torch.tensor(data["tokens"]), torch.tensor(data["labels"])
