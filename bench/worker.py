"""worker: a process that holds one peer ready, and measures when it is told to.

It writes a line of JSON when its libraries and data are loaded, one with its first gradient's measurements, and then
one for each number that it reads: the seconds per call of so many calls. Peers in processes of their own share no
allocator, no threads and no caches, and one that hangs or dies takes nothing with it.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bench.first import argument_parser, first, timed
from bench.peers import PEERS
from bench.peers.peer import Missing
from bench.problems import ALL

QUICK = 0.2  # seconds: a quicker call is made once, unmeasured, before those that are measured


def main() -> None:
    """Serve until there is no more to read."""
    parser = argument_parser("python -m bench.worker")
    parser.add_argument("--gradient", type=Path, required=True, metavar="PATH",
                        help="where to put the first gradient (.npz)")
    options = parser.parse_args()
    tell = speaker()
    try:
        serve(options, tell)
    except (ImportError, Missing) as err:
        tell({"missing": str(err)})
    except Exception as err:  # whatever a library does not accept belongs into the table
        tell({"missing": f"{type(err).__name__}: {(str(err).strip().splitlines() or [''])[0][:120]}"})


def serve(options: Any, tell: Any) -> None:
    """Load, measure the first gradient, then what is asked for."""
    problem, peer = ALL[options.problem].found(options.data, dict(options.size)), PEERS[options.peer]
    peer.ready(problem)
    tell({"ready": True})
    measured, gradient = first(problem, peer,
                               lambda value, parts: np.savez(options.gradient, *map(np.asarray, (value, *parts))))
    tell(asdict(measured))
    for line in sys.stdin:
        if measured.next < QUICK:
            gradient.call()
        tell({"seconds": timed(gradient.call, int(line))})


def speaker() -> Any:
    """Return a function that writes a line of JSON to standard output, of which nothing else gets hold from now on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(what: dict[str, Any]) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()
    return tell


if __name__ == "__main__":
    main()
