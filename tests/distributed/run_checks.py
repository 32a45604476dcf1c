"""Runs all checks on ranks of each number that is asked for: `python -m tests.distributed.run_checks 2 4`.

The ranks are forks of one process that has imported torch, which takes longer than most checks. One start of the ranks serves
all checks, one after the other.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from time import perf_counter

import torch._dynamo  # DTensor imports it at its first call
import torch.distributed as dist
import torch.distributed.tensor.debug
import torch.distributed.tensor.parallel  # noqa: F401

import tapegrad as tg
import tapegrad.frontends.torch
from tests.distributed.launch import rank_environment


def checks() -> None:
    """Run the checks on this rank; exit at the first that fails, since ranks may no longer stand at the same call."""
    from tests.distributed import (  # which ask for the rank as they are imported
        collective_checks,
        data_checks,
        mesh_checks,
    )
    # what ranks send one another, four send in every way that two do
    for module in (data_checks, collective_checks, mesh_checks) if tg.distributed.size() > 2 else (data_checks,):
        for name, check in list(vars(module).items()):
            if name.startswith("check_"):
                start = perf_counter()
                try:
                    check()
                except Exception:
                    sys.exit(f"rank {tg.distributed.rank()}: {name}\n{traceback.format_exc()}")
                if tg.distributed.rank() == 0:
                    print(f"{perf_counter() - start:6.2f} s  {name}", flush=True)
    dist.destroy_process_group()


def main(size: int) -> None:
    """Run the checks on so many ranks; exit where one fails, and end the others."""
    environments, ranks = rank_environment(size), set[int]()
    for environment in environments:
        child = os.fork()
        if not child:
            signal.alarm(200)  # ends it, should it wait for ever
            os.environ.update(environment)
            checks()
            sys.exit()
        ranks.add(child)
    while ranks:
        child, status = os.wait()
        ranks.discard(child)
        if status:
            for other in ranks:
                os.kill(other, signal.SIGKILL)
            sys.exit(f"a rank of {size} ended with {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        main(int(argument))
