"""Processes that a test starts: all of them by torchrun, or one by one, so that one can be killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import torch

GLOO = torch.distributed.is_available() and torch.distributed.is_gloo_available()
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def printed(*command: str, **environment: str) -> str:
    """Return what Python prints; raise AssertionError with that where it fails."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=400, env={**ENVIRONMENT, **environment})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout


def rank_environment(ranks: int) -> list[dict[str, str]]:
    """Return what torchrun tells each rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [{"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} for rank in range(ranks)]


def separately(ranks: int, *command: str) -> list[subprocess.Popen[str]]:
    """Start a command on so many ranks, without anybody who ends all where one has ended."""
    return [subprocess.Popen([sys.executable, *command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**ENVIRONMENT, **told})
            for told in rank_environment(ranks)]
