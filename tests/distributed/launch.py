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


def torchrun(ranks: int, *command: str, **environment: str) -> str:
    """Run a command on so many ranks; return what they print, and raise AssertionError with that where one fails."""
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *command],
                          capture_output=True, text=True, timeout=240, env={**ENVIRONMENT, **environment})
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout


def separately(ranks: int, *command: str, **environment: str) -> list[subprocess.Popen[str]]:
    """Start a command on so many ranks, without anybody who ends all where one has ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [subprocess.Popen([sys.executable, *command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={
        **ENVIRONMENT, "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        **environment}) for rank in range(ranks)]
