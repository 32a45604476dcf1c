"""Runs all checks on each rank, one after the other: one start of the processes serves them all."""

from __future__ import annotations

import sys
import traceback
from time import perf_counter

import torch.distributed as dist

from tests.distributed import collective_checks, data_checks, mesh_checks


def main() -> None:
    """Run the checks; exit at the first that fails, since ranks may no longer stand at the same call."""
    for module in (data_checks, collective_checks, mesh_checks):
        for name, check in list(vars(module).items()):
            if name.startswith("check_"):
                start = perf_counter()
                try:
                    check()
                except Exception:
                    sys.exit(f"rank {data_checks.RANK}: {name}\n{traceback.format_exc()}")
                if data_checks.RANK == 0:
                    print(f"{perf_counter() - start:6.2f} s  {name}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
