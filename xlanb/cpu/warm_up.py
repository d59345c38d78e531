"""Load LLVM in another thread while Python parses a program and runs its passes.

A process's first use of LLVM loads 180 MB, creates its targets, and faults the code of its passes
in: some 30 ms, during which no thread needs Python's lock.
"""

from __future__ import annotations

import os

from xlanb.codegen import jit, llvm
from xlanb.codegen.cpus import thread_count
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_unit
from xlanb.errors import XlanbError
from xlanb.lazy_logging import logger
from xlanb.threads import HAS_THREADS, Helper

_LOG = logger("xlanb.cpu")
_LOOP = """define void @f(ptr noalias %a, ptr noalias %b, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %p = getelementptr inbounds float, ptr %a, i64 %i
  %q = getelementptr inbounds float, ptr %b, i64 %i
  %x = load float, ptr %p
  %y = load float, ptr %q
  %z = fadd float %x, %y
  %less = fcmp olt float %z, 0.0
  %chosen = select i1 %less, float %x, float %z
  store float %chosen, ptr %q
  %next = add nuw nsw i64 %i, 1
  %again = icmp slt i64 %next, %n
  br i1 %again, label %loop, label %done
done:
  ret void
}
"""
"""A loop that LLVM vectorizes, so that it goes through most passes."""
_started: list[Helper] = []


def warm_up() -> None:
    """Begin to load LLVM, once per process; the caller need not wait for it.

    Does nothing on one processor, or without llvmlite or threads.

    Raises:
        FlagError: An environment variable that limits threads is not a whole number.
    """
    if _started or not HAS_THREADS or thread_count() < 2 or not llvm.is_installed():
        return
    helper = Helper(_load)
    _started.append(helper)
    try:
        helper.begin()
    except RuntimeError as error:
        _LOG.info("LLVM is loaded when it is needed: %s", error)


def _load() -> None:
    """Compile a loop at both levels of `compile_unit`."""
    try:
        target = jit.host()
        for unit in (Unit(_LOOP, ready=False, weight=0), Unit(_LOOP, ready=True, weight=0, calls_only=True)):
            compile_unit(unit, target)
    except XlanbError as error:  # whoever needs LLVM gets the same error
        _LOG.info("LLVM cannot be loaded: %s", error)


def _wait() -> None:
    """Wait for the thread, so that a fork has no lock that it holds."""
    for helper in _started:
        helper.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait)
