"""Instructions without a kernel are expanded, even if no pass has run."""

import numpy as np
import pytest

from xlanb.gpu.launches import LibraryCall

X = np.random.default_rng(0).permutation(400).reshape(4, 100).astype(np.float32)


def kernels_alone(exe):
    assert not any(isinstance(launch, LibraryCall) for launch in exe.launches)
    assert exe.kernels


def test_topk(check):
    text = """HloModule m
ENTRY e { x = f32[4,100] parameter(0)  ROOT t = (f32[4,7], s32[4,7]) topk(x), k=7, largest=true }"""
    kernels_alone(check(text, X))


def test_batch_norm(check):
    text = """HloModule m
ENTRY e {
  x = f32[4,5,20] parameter(0)  s = f32[5] parameter(1)  o = f32[5] parameter(2)
  ROOT n = (f32[4,5,20], f32[5], f32[5]) batch-norm-training(x, s, o), epsilon=0.001, feature_index=1
}"""
    scale, offset = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    kernels_alone(check(text, X.reshape(4, 5, 20), scale, offset, rtol=1e-4, atol=1e-4))


def test_random_bits(check):
    text = """HloModule m
ENTRY e { s = u64[2] parameter(0)  ROOT r = (u64[2], u32[1000]) rng-bit-generator(s), algorithm=rng_three_fry }"""
    kernels_alone(check(text, np.array([1, 2], np.uint64)))


@pytest.mark.parametrize("size", ["2x2", "3x3"])
def test_select_and_scatter(check, size):
    count = {"2x2": "2,50", "3x3": "1,49"}[size]
    text = f"""HloModule m
ge {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=GE }}
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY e {{
  x = f32[4,100] parameter(0)  s = f32[{count}] parameter(1)  z = f32[] constant(0)
  ROOT r = f32[4,100] select-and-scatter(x, s, z), window={{size={size} stride=2x2}}, select=ge, scatter=add
}}"""
    kernels_alone(check(text, X, np.ones(tuple(map(int, count.split(","))), np.float32)))
