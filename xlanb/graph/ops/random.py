"""Random numbers: rows of the op table (see op_def for their form; facts of tensorflow/core/ops)."""

from __future__ import annotations

ROWS = r"""
Multinomial(logits: T, num_samples: s32) -> (output: output_dtype) [seed: int = 0; seed2: int = 0; T: type in REAL; output_dtype: type in INDEX = s64] stateful
ParameterizedTruncatedNormal(shape: T, means: dtype, stdevs: dtype, minvals: dtype, maxvals: dtype) -> (output: dtype) [seed: int = 0; seed2: int = 0; dtype: type in FLOAT; T: type in INDEX] stateful
RandomGamma(shape: S, alpha: T) -> (output: T) [seed: int = 0; seed2: int = 0; S: type in INDEX; T: type in {f16, f32, f64}] stateful
RandomGammaGrad(alpha: T, sample: T) -> (output: T) [T: type in {f32, f64}]
RandomShuffle(value: T) -> (output: T) [seed: int = 0; seed2: int = 0; T: type] stateful
RandomStandardNormal(shape: T) -> (output: dtype) [seed: int = 0; seed2: int = 0; dtype: type in FLOAT; T: type in INDEX] stateful
RandomUniform(shape: T) -> (output: dtype) [seed: int = 0; seed2: int = 0; dtype: type in FLOAT; T: type in INDEX] stateful
RandomUniformInt(shape: T, minval: Tout, maxval: Tout) -> (output: Tout) [seed: int = 0; seed2: int = 0; Tout: type in INDEX; T: type in INDEX] stateful
RngReadAndSkip(resource: resource, alg: s32, delta: u64) -> (value: s64) stateful
RngSkip(resource: resource, algorithm: s64, delta: s64) -> () stateful
StatefulStandardNormalV2(resource: resource, algorithm: s64, shape: shape_dtype) -> (output: dtype) [dtype: type = f32; shape_dtype: type = s64] stateful
StatefulTruncatedNormal(resource: resource, algorithm: s64, shape: shape_dtype) -> (output: dtype) [dtype: type = f32; shape_dtype: type = s64] stateful
StatefulUniform(resource: resource, algorithm: s64, shape: shape_dtype) -> (output: dtype) [dtype: type = f32; shape_dtype: type = s64] stateful
StatefulUniformFullInt(resource: resource, algorithm: s64, shape: shape_dtype) -> (output: dtype) [dtype: type = u64; shape_dtype: type = s64] stateful
StatefulUniformInt(resource: resource, algorithm: s64, shape: shape_dtype, minval: dtype, maxval: dtype) -> (output: dtype) [dtype: type = s64; shape_dtype: type = s64] stateful
StatelessMultinomial(logits: T, num_samples: s32, seed: Tseed) -> (output: output_dtype) [T: type in REAL; Tseed: type in INDEX = s64; output_dtype: type in INDEX = s64]
StatelessParameterizedTruncatedNormal(shape: S, seed: Tseed, means: dtype, stddevs: dtype, minvals: dtype, maxvals: dtype) -> (output: dtype) [S: type in INDEX; Tseed: type in INDEX = s64; dtype: type in {f16, f32, f64}]
StatelessRandomGetAlg() -> (alg: s32) stateful
StatelessRandomGetKeyCounter(seed: Tseed) -> (key: u64, counter: u64) [Tseed: type in INDEX = s64]
StatelessRandomGetKeyCounterAlg(seed: Tseed) -> (key: u64, counter: u64, alg: s32) [Tseed: type in INDEX = s64]
StatelessRandomNormal(shape: T, seed: Tseed) -> (output: dtype) [dtype: type in FLOAT = f32; T: type in INDEX = s32; Tseed: type in INDEX = s64]
StatelessRandomNormalV2(shape: Tshape, key: u64, counter: u64, alg: s32) -> (output: dtype) [dtype: type in FLOAT = f32; Tshape: type in INDEX = s32]
StatelessRandomUniform(shape: T, seed: Tseed) -> (output: dtype) [dtype: type in FLOAT = f32; T: type in INDEX = s32; Tseed: type in INDEX = s64]
StatelessRandomUniformFullInt(shape: T, seed: Tseed) -> (output: dtype) [dtype: type in {s32, s64, u32, u64} = u64; T: type in INDEX = s32; Tseed: type in {s32, s64, u32, u64} = s64]
StatelessRandomUniformFullIntV2(shape: Tshape, key: u64, counter: u64, alg: s32) -> (output: dtype) [dtype: type in {s32, s64, u32, u64} = u64; Tshape: type in INDEX = s32]
StatelessRandomUniformInt(shape: T, seed: Tseed, minval: dtype, maxval: dtype) -> (output: dtype) [dtype: type in INDEX; T: type in INDEX; Tseed: type in INDEX = s64]
StatelessRandomUniformIntV2(shape: Tshape, key: u64, counter: u64, alg: s32, minval: dtype, maxval: dtype) -> (output: dtype) [dtype: type in {s32, s64, u32, u64}; Tshape: type in INDEX = s32]
StatelessRandomUniformV2(shape: Tshape, key: u64, counter: u64, alg: s32) -> (output: dtype) [dtype: type in FLOAT = f32; Tshape: type in INDEX = s32]
StatelessTruncatedNormal(shape: T, seed: Tseed) -> (output: dtype) [dtype: type in FLOAT = f32; T: type in INDEX = s32; Tseed: type in INDEX = s64]
StatelessTruncatedNormalV2(shape: Tshape, key: u64, counter: u64, alg: s32) -> (output: dtype) [dtype: type in FLOAT = f32; Tshape: type in INDEX = s32]
StochasticCastToInt(input: Tin, key: u64, counter: u64, alg: s32) -> (output: Tout) [Tin: type in FLOAT; Tout: type in {s8, s16, s32}]
TruncatedNormal(shape: T) -> (output: dtype) [seed: int = 0; seed2: int = 0; dtype: type in FLOAT; T: type in INDEX] stateful
"""
