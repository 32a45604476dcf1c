"""The LSTM as one would write it in PyTorch."""

from __future__ import annotations

import torch


def objective(main: torch.Tensor, extra: torch.Tensor, state: torch.Tensor, sequence: torch.Tensor) -> torch.Tensor:
    """Compute what `lstm.objective` does; the loss is taken of all times at once."""
    weights, biases = main[::2].unbind(), main[1::2].unbind()
    hidden, cell = list(state[::2].unbind()), list(state[1::2].unbind())
    outputs = []
    for x in (sequence[:-1] * extra[0]).unbind():
        for i, (weight, bias) in enumerate(zip(weights, biases)):
            hidden[i], cell[i] = lstm(weight, bias, hidden[i], cell[i], x)
            x = hidden[i]
        outputs.append(x)
    predicted = torch.stack(outputs) * extra[1] + extra[2]
    normalised = predicted - torch.log(2.0 + torch.sum(torch.exp(predicted), 1, keepdim=True))
    return -torch.mean(sequence[1:] * normalised)


def lstm(weight: torch.Tensor, bias: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor,
         x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the next hidden state and cell of one layer."""
    n = len(hidden)
    gates = torch.addcmul(bias, torch.cat((x, hidden, x, hidden)), weight)
    forget, take, give = torch.sigmoid(gates[:3 * n]).split(n)
    cell = cell * forget + take * torch.tanh(gates[3 * n:])
    return give * torch.tanh(cell), cell
