"""A kernel's text run by threads of the processor: the numbers are those of a GPU, and ThreadSanitizer says where one
thread reads what another writes without having met it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import torch

from tapegrad.compile.torch.loop_kernel import TYPES, Text

HEAD = """
#include <pthread.h>
#include <cmath>
#include <cstdio>
using namespace std;
#define __global__
#define __shared__
#define __syncthreads() pthread_barrier_wait(&barrier)
#define __syncwarp() pthread_barrier_wait(&barrier)
static pthread_barrier_t barrier;
static thread_local struct { int x; } threadIdx;
double shared[6144];
"""


def run(text: Text, args: Any, folder: Path) -> list[torch.Tensor]:
    """Compile a kernel for the processor, run it on tensors, and return what it made. Raises AssertionError for a race."""
    given = [args[i].contiguous() for i in text.taken] + [x.contiguous() for x in text.constants]
    arrays = [(x.dtype, x.numel()) for x in given] + [(dtype, torch.Size(shape).numel()) for shape, dtype in text.made]
    names = [f"a{i}" for i in range(len(arrays))]
    lines = [f"static {TYPES[dtype]} {name}[{max(n, 1)}];" for name, (dtype, n) in zip(names, arrays)]
    lines += ["static void* work(void* number) {", "  threadIdx.x = (int)(long)number;", f"  loop({', '.join(names)});",
              "  return 0; }", "int main(int, char** argv) {", '  FILE* f = fopen(argv[1], "rb");']
    lines += [f"  if (fread({name}, sizeof *{name}, {n}, f) != {n}) return 3;"
              for name, (_, n) in zip(names, arrays[:len(given)])]
    lines += [f"  pthread_t threads[{text.width}];", f"  pthread_barrier_init(&barrier, 0, {text.width});",
              f"  for (long i = 0; i < {text.width}; i++) pthread_create(&threads[i], 0, work, (void*)i);",
              f"  for (long i = 0; i < {text.width}; i++) pthread_join(threads[i], 0);", '  f = fopen(argv[1], "wb");']
    lines += [f"  fwrite({name}, sizeof *{name}, {n}, f);" for name, (_, n) in zip(names[len(given):], arrays[len(given):])]
    source, program, data = folder / "kernel.cpp", folder / "kernel", folder / "data"
    source.write_text("\n".join([HEAD, text.text, *lines, "  return fclose(f); }", ""]))
    subprocess.run(["g++", "-O1", "-w", "-fsanitize=thread", str(source), "-o", str(program), "-lpthread"], check=True)
    data.write_bytes(b"".join(x.numpy().tobytes() for x in given))
    done = subprocess.run([str(program), str(data)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[:2000]
    found, raw = [], bytearray(data.read_bytes())
    for shape, dtype in text.made:
        n = torch.Size(shape).numel()
        found.append(torch.frombuffer(raw, dtype=dtype, count=n).reshape(shape) if n else torch.empty(shape, dtype=dtype))
        raw = raw[n * dtype.itemsize:]
    return found
