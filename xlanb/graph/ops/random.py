"""Random numbers: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
Multinomial(logits: T, num_samples: s32) -> (output: output_dtype)
    [seed: int = 0; seed2: int = 0; T: type in REAL; output_dtype: type in INDEX = s64] stateful
    Samples of classes by their logits.
ParameterizedTruncatedNormal(shape: T, means: dtype, stdevs: dtype, minvals: dtype, maxvals: dtype) -> (output: dtype)
    [seed: int = 0; seed2: int = 0; dtype: type in FLOAT; T: type in INDEX] stateful
    Normally distributed numbers within bounds.
RandomGamma(shape: S, alpha: T) -> (output: T)
    [seed: int = 0; seed2: int = 0; S: type in INDEX; T: type in {f16, f32, f64}] stateful
    Gamma distributed numbers.
RandomGammaGrad(alpha: T, sample: T) -> (output: T) [T: type in {f32, f64}]
RandomShuffle(value: T) -> (output: T) [seed: int = 0; seed2: int = 0; T: type] stateful
    Rows in random order.
RandomStandardNormal(shape: T) -> (output: dtype)
    [seed: int = 0; seed2: int = 0; dtype: type in FLOAT; T: type in INDEX] stateful
    Normally distributed numbers, mean 0, deviation 1.
RandomUniform(shape: T) -> (output: dtype)
    [seed: int = 0; seed2: int = 0; dtype: type in FLOAT; T: type in INDEX] stateful
    Evenly distributed numbers in [0, 1).
RandomUniformInt(shape: T, minval: Tout, maxval: Tout) -> (output: Tout)
    [seed: int = 0; seed2: int = 0; Tout: type in INDEX; T: type in INDEX] stateful
    Evenly distributed integers in [minval, maxval).
RngReadAndSkip(resource: resource, alg: s32, delta: u64) -> (value: s64) stateful
RngSkip(resource: resource, algorithm: s64, delta: s64) -> () stateful
StatefulStandardNormalV2(resource: resource, algorithm: s64, shape: shape_dtype) -> (output: dtype)
    [dtype: type = f32; shape_dtype: type = s64] stateful
StatefulTruncatedNormal(resource: resource, algorithm: s64, shape: shape_dtype) -> (output: dtype)
    [dtype: type = f32; shape_dtype: type = s64] stateful
StatefulUniform(resource: resource, algorithm: s64, shape: shape_dtype) -> (output: dtype)
    [dtype: type = f32; shape_dtype: type = s64] stateful
StatefulUniformFullInt(resource: resource, algorithm: s64, shape: shape_dtype) -> (output: dtype)
    [dtype: type = u64; shape_dtype: type = s64] stateful
StatefulUniformInt(resource: resource, algorithm: s64, shape: shape_dtype, minval: dtype, maxval: dtype) -> (output: dtype)
    [dtype: type = s64; shape_dtype: type = s64] stateful
StatelessMultinomial(logits: T, num_samples: s32, seed: Tseed) -> (output: output_dtype)
    [T: type in REAL; Tseed: type in INDEX = s64; output_dtype: type in INDEX = s64]
    Multinomial by a seed.
StatelessParameterizedTruncatedNormal(shape: S, seed: Tseed, means: dtype, stddevs: dtype, minvals: dtype, maxvals: dtype) -> (output: dtype)
    [S: type in INDEX; Tseed: type in INDEX = s64; dtype: type in {f16, f32, f64}]
StatelessRandomGetAlg() -> (alg: s32) stateful
    The random algorithm of this device.
StatelessRandomGetKeyCounter(seed: Tseed) -> (key: u64, counter: u64) [Tseed: type in INDEX = s64]
    Key and counter of a seed.
StatelessRandomGetKeyCounterAlg(seed: Tseed) -> (key: u64, counter: u64, alg: s32) [Tseed: type in INDEX = s64]
StatelessRandomNormal(shape: T, seed: Tseed) -> (output: dtype)
    [dtype: type in FLOAT = f32; T: type in INDEX = s32; Tseed: type in INDEX = s64]
    Normally distributed numbers by a seed (Philox).
StatelessRandomNormalV2(shape: Tshape, key: u64, counter: u64, alg: s32) -> (output: dtype)
    [dtype: type in FLOAT = f32; Tshape: type in INDEX = s32]
    Normally distributed numbers by key, counter and algorithm.
StatelessRandomUniform(shape: T, seed: Tseed) -> (output: dtype)
    [dtype: type in FLOAT = f32; T: type in INDEX = s32; Tseed: type in INDEX = s64]
    Evenly distributed numbers in [0, 1) by a seed (Philox).
StatelessRandomUniformFullInt(shape: T, seed: Tseed) -> (output: dtype)
    [dtype: type in {s32, s64, u32, u64} = u64; T: type in INDEX = s32; Tseed: type in {s32, s64, u32, u64} = s64]
    Integers of all values by a seed.
StatelessRandomUniformFullIntV2(shape: Tshape, key: u64, counter: u64, alg: s32) -> (output: dtype)
    [dtype: type in {s32, s64, u32, u64} = u64; Tshape: type in INDEX = s32]
    Integers of all values by key, counter and algorithm.
StatelessRandomUniformInt(shape: T, seed: Tseed, minval: dtype, maxval: dtype) -> (output: dtype)
    [dtype: type in INDEX; T: type in INDEX; Tseed: type in INDEX = s64]
    Integers in [minval, maxval) by a seed.
StatelessRandomUniformIntV2(shape: Tshape, key: u64, counter: u64, alg: s32, minval: dtype, maxval: dtype) -> (output: dtype)
    [dtype: type in {s32, s64, u32, u64}; Tshape: type in INDEX = s32]
    Integers in [minval, maxval) by key, counter and algorithm.
StatelessRandomUniformV2(shape: Tshape, key: u64, counter: u64, alg: s32) -> (output: dtype)
    [dtype: type in FLOAT = f32; Tshape: type in INDEX = s32]
    Evenly distributed numbers in [0, 1) by key, counter and algorithm.
StatelessTruncatedNormal(shape: T, seed: Tseed) -> (output: dtype)
    [dtype: type in FLOAT = f32; T: type in INDEX = s32; Tseed: type in INDEX = s64]
    Truncated normal numbers by a seed.
StatelessTruncatedNormalV2(shape: Tshape, key: u64, counter: u64, alg: s32) -> (output: dtype)
    [dtype: type in FLOAT = f32; Tshape: type in INDEX = s32]
    Truncated normal numbers by key, counter and algorithm.
StochasticCastToInt(input: Tin, key: u64, counter: u64, alg: s32) -> (output: Tout)
    [Tin: type in FLOAT; Tout: type in {s8, s16, s32}]
TruncatedNormal(shape: T) -> (output: dtype)
    [seed: int = 0; seed2: int = 0; dtype: type in FLOAT; T: type in INDEX] stateful
    Normally distributed numbers, drawn again beyond two deviations.
"""
