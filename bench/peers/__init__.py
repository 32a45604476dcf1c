"""The peers by name, in the order of the tables; gradients are compared with the first one's."""

from __future__ import annotations

from bench.peers import autograd, handwritten, jax, native, tapegrad, torch
from bench.peers.peer import Peer

PEERS: dict[str, Peer] = {peer.name: peer
                          for peer in (*handwritten.PEERS, *native.PEERS, *autograd.PEERS, *torch.PEERS,
                                       *jax.PEERS, *tapegrad.PEERS)}
