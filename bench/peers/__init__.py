"""The peers, in the order of the table; gradients are compared with the first one's."""

from __future__ import annotations

from bench.peers import autograd, jax, tapegrad, torch
from bench.peers.peer import Peer

PEERS: tuple[Peer, ...] = (*tapegrad.PEERS, *autograd.PEERS, *torch.PEERS, *jax.PEERS)
