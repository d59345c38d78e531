"""Executions that need more memory than there is, each in a child with a limited address space."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import xlanb
from xlanb.errors import EvaluationError, OutOfMemoryError, XlanbError

BROADCAST = "HloModule m\nENTRY e { x = f32[] parameter(0)  ROOT r = f32[%d] broadcast(x), dimensions={} }"
SORTED = """HloModule m
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[10] parameter(0)
  b = f32[300000000,10] broadcast(x), dimensions={1}
  i = f32[300000000,10] iota(), iota_dimension=0
  m = f32[300000000,10] multiply(b, i)
  sorted = f32[300000000,10] sort(m), dimensions={0}, to_apply=less
  ROOT r = f32[1,1] slice(sorted), slice={[0:1], [0:1]}
}"""
COLUMNS = """HloModule m, entry_computation_layout={(f32[30000,30000]{0,1})->f32[30000]{0}}
ENTRY e { x = f32[30000,30000]{0,1} parameter(0)  s = f32[1,30000]{1,0} slice(x), slice={[7:8], [0:30000]}
  ROOT r = f32[30000]{0} reshape(s) }"""
ELIDED = "HloModule m\nENTRY e { x = f32[] parameter(0)  ROOT c = f32[%d] constant({...}) }"


def limited(work: str, limit: int = 2 << 30) -> str:
    """The output of a child whose address space may grow by `limit` bytes.

    The limit is set after xlanb is loaded and has run a program.
    """
    text = f"""
        import resource
        from pathlib import Path
        import numpy as np
        import xlanb
        xlanb.compile("HloModule w\\nENTRY e {{ x = f32[2] parameter(0)  ROOT r = f32[2] tanh(x) }}")(np.ones(2, np.float32))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + {limit}, used + {limit}))
    """
    whole = textwrap.dedent(text) + textwrap.dedent(work)
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def raised(program: str, arguments: str, call: str = "xlanb.compile(text)") -> str:
    """The message of the error that a program raises."""
    return limited(f"""
        text = {program!r}
        run = {call}
        try:
            run({arguments})
        except xlanb.errors.OutOfMemoryError as error:
            print(error)
    """)


def test_a_result_that_does_not_fit_is_named():
    message = raised(BROADCAST % 2_000_000_000, "np.float32(1)")
    assert message.startswith("out of memory for result 0 of m, f32[2000000000] (instruction r): 7.5 GiB requested; ")
    assert message.endswith(" are available")


def test_results_of_which_one_fits_are_given_back():
    program = (
        (BROADCAST % 2_000_000_000)
        .replace("ROOT r =", "s = f32[100000000] broadcast(x), dimensions={}\n r =")
        .replace("dimensions={} }", "dimensions={}\n ROOT t = (f32[100000000], f32[2000000000]) tuple(s, r) }")
    )
    assert limited(f"""
        run = xlanb.compile({program!r})
        for _ in range(50):
            try:
                run(np.float32(1))
            except xlanb.errors.OutOfMemoryError as error:
                last = str(error)
        print(last)
    """).startswith("out of memory for result 1 of m, f32[2000000000] (instruction r)")


def test_temporaries_that_do_not_fit_are_named():
    message = raised(SORTED, "np.ones(10, np.float32)")
    assert message.startswith(
        "out of memory for the temporaries of m, the largest of which is f32[300000000,10] (11.2 GiB, instruction "
    )


def test_a_copy_of_an_argument_that_does_not_fit_is_named():
    message = raised(COLUMNS, "np.broadcast_to(np.float32(1), (30000, 30000))")
    assert message.startswith(
        "out of memory for a copy of argument 0 (x) in the layout f32[30000,30000]{0,1}: 3.4 GiB requested"
    )


def test_the_evaluator_names_the_instruction():
    message = raised(BROADCAST % 1_000_000_000, "np.float32(1)", "lambda x: xlanb.evaluate(text, x)")
    assert message.startswith("out of memory for r, whose result is f32[1000000000]: 3.7 GiB requested")
    assert "in e: %r = f32[1000000000]{0} broadcast(%x)" in message


def test_a_constant_that_does_not_fit_is_named():
    message = raised(ELIDED % 2_000_000_000, "np.float32(1)", "lambda x: xlanb.compile(text)(x)")
    assert message.startswith("out of memory for constant c, f32[2000000000]: 7.5 GiB requested")


def test_an_elided_constant_in_a_kernel_takes_no_memory():
    program = (
        (ELIDED % 2_000_000_000)
        .replace("ROOT c", "c")
        .replace("{...}) }", "{...})\n t = f32[2000000000] tanh(c)\n ROOT r = f32[3] slice(t), slice={[5:8]} }")
    )
    assert limited(f"print(xlanb.compile({program!r})(np.float32(1)))") == "[0. 0. 0.]"


@pytest.mark.parametrize("elements", [1 << 60, 1 << 62])
def test_what_no_memory_could_hold_is_refused_by_the_compiler(elements):
    with pytest.raises(
        OutOfMemoryError, match=r"r in e, f32\[\d+\], takes [48]\.0 EiB|16\.0 EiB, more than can be addressed"
    ):
        xlanb.compile(BROADCAST % elements)


def test_kinds():
    error = OutOfMemoryError("no memory", 7)
    assert isinstance(error, XlanbError)
    assert isinstance(error, MemoryError)
    assert (str(error), error.wanted) == ("no memory", 7)
    with pytest.raises(EvaluationError, match=r"r: the value would take 8\.0 EiB, more than the limit of 4\.0 EiB"):
        xlanb.evaluate(BROADCAST % (1 << 61), np.float32(1))
