"""jobs: runs independent large products on several threads.

Consecutive products on a tape that do not use each other's values are deferred until another operation must be
computed. Each then runs whole on one thread, so that results do not depend on the number of threads. The GIL is
released meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tapegrad.compile.native.emit import Emitter
from tapegrad.compile.native.layouts import LAYOUT
from tapegrad.compile.native.values import Array
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Operation

LARGE = 2e6  # flops from which a product is deferred: a twentieth of a millisecond
WORTH = 2e7  # flops, besides the heaviest product's, from which several threads are started: half a millisecond to one


def flops_of(op: Operation) -> int:
    """Return the number of floating-point operations of a product."""
    return 2 * op.spec.size * spec_of(op.args[0]).shape[-1] * (4 if op.spec.is_complex else 1)


class Job(NamedTuple):
    """A product: its function, the three addresses passed to it, the array for its value, and its flops."""

    code: str
    at: Sequence[str]
    made: Array
    flops: int


def job(f: Emitter, at: Sequence[str], made: Array, flops: int, write: Callable[..., None]) -> Job:
    """Return a product as a function of its own; `write` emits its code from the names of the three addresses."""
    name, lines, block = f.fresh("job").replace("%", "@"), f.lines, f.block
    f.lines, f.block = [], "%entry"
    try:
        write("%a", "%b", "%c")
        body = [f"define internal void {name}(ptr %a, ptr %b, ptr %c) {{", "entry:", *f.lines, "  ret void", "}"]
    finally:
        f.lines, f.block = lines, block
    f.declare("\n".join(body))
    return Job(name, at, made, flops)


def write_jobs(f: Emitter, jobs: Sequence[Job], count: str) -> None:
    """Emit code that runs products; `count` is the array that holds the number of threads."""
    work = [job.flops for job in jobs]
    if sum(work) - max(work, default=0) >= WORTH:
        table = f.stack(32 * len(jobs))
        for number, job in enumerate(jobs):
            for place, text in enumerate((job.code, *job.at)):
                f.put(f"store ptr {text}, ptr {f.at(table, 32 * number + 8 * place)}")
        f.declare("declare void @tapegrad_together(ptr, i64, ptr)")
        f.put(f"call void @tapegrad_together(ptr {table}, i64 {len(jobs)}, ptr {count})")
        return
    free = f.op("call ptr @PyEval_SaveThread()") if sum(work) >= WORTH else ""
    for job in jobs:
        f.put(f"call void {job.code}({', '.join(f'ptr {text}' for text in job.at)})")
    if free:
        f.put(f"call void @PyEval_RestoreThread(ptr {free})")


TOGETHER = f"""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @tapegrad_blas_threads()
; the next job, how many there are, their table, how many threads are still to be started, what computing has told
%jobs = type {{ i64, i64, ptr, i64, i32 }}

; what each thread does: it starts the next one, and takes jobs until none is left
define ptr @tapegrad_work(ptr %jobs) {{
entry:
  %other = alloca i64
  %count_at = getelementptr %jobs, ptr %jobs, i32 0, i32 1
  %count = load i64, ptr %count_at
  %table_at = getelementptr %jobs, ptr %jobs, i32 0, i32 2
  %table = load ptr, ptr %table_at
  %threads_at = getelementptr %jobs, ptr %jobs, i32 0, i32 3
  %threads = atomicrmw sub ptr %threads_at, i64 1 seq_cst
  br sle i64 %threads, 1, label %next, label %start
start:
  %failed = call i32 @pthread_create(ptr %other, ptr null, ptr @tapegrad_work, ptr %jobs)
  %is_there = icmp eq i32 %failed, 0
  br label %next
next:
  %started = phi i1 [ false, %entry ], [ %is_there, %start ], [ %started, %one ]
  %k = atomicrmw add ptr %jobs, i64 1 seq_cst
  br ult i64 %k, %count, label %one, label %done
one:
  %job_at = getelementptr [4 x ptr], ptr %table, i64 %k
  %job = load [4 x ptr], ptr %job_at
  %code = extractvalue [4 x ptr] %job, 0
  %a = extractvalue [4 x ptr] %job, 1
  %b = extractvalue [4 x ptr] %job, 2
  %c = extractvalue [4 x ptr] %job, 3
  call void %code(ptr %a, ptr %b, ptr %c)
  br label %next
done:
  %told = call i32 @tapegrad_flags()
  %told_at = getelementptr %jobs, ptr %jobs, i32 0, i32 4
  %before = atomicrmw or ptr %told_at, i32 %told seq_cst
  br i1 %started, label %join, label %end
join:
  %thread = load i64, ptr %other
  call i32 @pthread_join(i64 %thread, ptr null)
  br label %end
end:
  ret ptr null
}}

; run jobs on as many threads as an array says, this one among them; on this one alone where BLAS has threads of its own
define void @tapegrad_together(ptr %table, i64 %count, ptr %array) {{
  %jobs = alloca %jobs
  %data = load ptr, ptr %array[i8 {LAYOUT.data}]
  %wanted = load i64, ptr %data
  %few = icmp slt i64 %wanted, %count
  %some = select i1 %few, i64 %wanted, i64 %count
  %blas = call i32 @tapegrad_blas_threads()
  %single = icmp eq i32 %blas, 1
  %threads = select i1 %single, i64 %some, i64 1
  %counted = insertvalue %jobs zeroinitializer, i64 %count, 1
  %placed = insertvalue %jobs %counted, ptr %table, 2
  %filled = insertvalue %jobs %placed, i64 %threads, 3
  store %jobs %filled, ptr %jobs
  %free = call ptr @PyEval_SaveThread()
  call ptr @tapegrad_work(ptr %jobs)
  call void @PyEval_RestoreThread(ptr %free)
  %told_at = getelementptr %jobs, ptr %jobs, i32 0, i32 4
  call void @llvm.x86.sse.ldmxcsr(ptr %told_at)
  ret void
}}
"""
"""The part of the prelude that runs products on several threads."""
