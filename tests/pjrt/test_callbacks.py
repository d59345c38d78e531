"""Numbers of Python functions that programs call, and their lifetime."""

from __future__ import annotations

import gc

import numpy as np

from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.pjrt import callbacks

CALLS = """HloModule calls

ENTRY main {{
  x = f32[3]{{0}} parameter(0)
  a = f32[3]{{0}} custom-call(x), custom_call_target="xla_ffi_python_cpu_callback", api_version=API_VERSION_TYPED_FFI, backend_config={{index = {0} : ui64}}
  b = f32[3]{{0}} custom-call(a), custom_call_target="xla_ffi_python_cpu_callback", api_version=API_VERSION_TYPED_FFI, backend_config={{index = {1} : ui64}}
  ROOT c = f32[3]{{0}} custom-call(b), custom_call_target="xla_ffi_python_cpu_callback", api_version=API_VERSION_TYPED_FFI, backend_config={{index = {0} : ui64}}
}}
"""
X = np.array([1.0, 2.0, 3.0], np.float32)


def number(function) -> int:
    numbered = callbacks.Numbered()
    numbered.append(function)
    return len(numbered) - 1


def double(x):
    return (x * 2,)


def increase(x):
    return (x + 1,)


def test_each_function_has_a_number_of_its_own():
    numbers = [number(f) for f in (double, increase, double)]
    assert numbers == list(range(numbers[0], numbers[0] + 3))


def test_a_module_gets_the_functions_that_it_calls():
    number(lambda x: (x,))
    module = parse(CALLS.format(number(double), number(increase)))
    callbacks.bind(module)
    assert module.host_callbacks == (double, increase)
    np.testing.assert_array_equal(evaluate(module, X), (X * 2 + 1) * 2)


def test_a_function_lives_as_long_as_a_module_that_is_bound_to_it():
    seen = []

    def make():
        def tell(x):
            seen.append(float(x[0]))
            return (x,)

        return tell

    tell = make()
    own = number(tell)
    module = parse(CALLS.format(own, own))
    callbacks.bind(module)
    del tell
    gc.collect()
    evaluate(module, X)
    assert seen == [1.0] * 3
    late = parse(CALLS.format(own, own))
    del module
    gc.collect()
    callbacks.bind(late)
    assert late.host_callbacks == ()
