"""Texts, encodings and files of them: rows of the op table.

Facts of tensorflow/core/ops; op_def describes the form.
"""

from __future__ import annotations

ROWS = r"""
DecodeBase64(input: string) -> (output: string)
DecodeCSV(records: string, record_defaults: list(OUT_TYPE)) -> (output: list(OUT_TYPE))
    [OUT_TYPE: list(type) in {f32, f64, s32, s64, string} >= 1; field_delim: string = ","; use_quote_delim: bool =
     true; na_value: string = ""; select_cols: list(int) = []]
DecodeCompressed(bytes: string) -> (output: string) [compression_type: string = ""]
DecodePaddedRaw(input_bytes: string, fixed_length: s32) -> (output: out_type)
    [out_type: type in {f16, f32, f64, s32, u16, u8, s16, s8, s64, bf16}; little_endian: bool = true]
EditDistance(hypothesis_indices: s64, hypothesis_values: T, hypothesis_shape: s64, truth_indices: s64, truth_values: T, truth_shape: s64) -> (output: f32)
    [normalize: bool = true; T: type]
Fingerprint(data: T, method: string) -> (fingerprint: u8) [T: type]
IteratorFromStringHandle(string_handle: string) -> (resource_handle: resource)
    [output_types: list(type) >= 0 = []; output_shapes: list(shape) >= 0 = []] stateful
IteratorFromStringHandleV2(string_handle: string) -> (resource_handle: resource)
    [output_types: list(type) >= 0 = []; output_shapes: list(shape) >= 0 = []] stateful
IteratorToStringHandle(resource_handle: resource) -> (string_handle: string) stateful
MatchingFiles(pattern: string) -> (filenames: string)
ParseTensor(serialized: string) -> (output: out_type) [out_type: type]
ReaderSerializeState(reader_handle: Ref(string)) -> (state: string)
ReaderSerializeStateV2(reader_handle: resource) -> (state: string) stateful
RegexFullMatch(input: string, pattern: string) -> (output: pred)
SerializeIterator(resource_handle: resource) -> (serialized: variant) [external_state_policy: int = 0] stateful
SerializeManySparse(sparse_indices: s64, sparse_values: T, sparse_shape: s64) -> (serialized_sparse: out_type)
    [T: type; out_type: type in {string, variant} = string]
SerializeSparse(sparse_indices: s64, sparse_values: T, sparse_shape: s64) -> (serialized_sparse: out_type)
    [T: type; out_type: type in {string, variant} = string]
SerializeTensor(tensor: T) -> (serialized: string) [T: type]
ShardedFilename(basename: string, shard: s32, num_shards: s32) -> (filename: string)
ShardedFilespec(basename: string, num_shards: s32) -> (filename: string)
StaticRegexFullMatch(input: string) -> (output: pred) [pattern: string]
StaticRegexReplace(input: string) -> (output: string)
    [pattern: string; rewrite: string; replace_global: bool = true]
StringLower(input: string) -> (output: string) [encoding: string = ""]
StringNGrams(data: string, data_splits: Tsplits) -> (ngrams: string, ngrams_splits: Tsplits)
    [separator: string; ngram_widths: list(int) >= 0; left_pad: string; right_pad: string; pad_width: int;
     preserve_short_sequences: bool; Tsplits: type in INDEX = s64]
StringSplitV2(input: string, sep: string) -> (indices: s64, values: string, shape: s64) [maxsplit: int = -1]
StringStrip(input: string) -> (output: string)
StringToHashBucket(string_tensor: string) -> (output: s64) [num_buckets: int >= 1]
StringToHashBucketStrong(input: string) -> (output: s64) [num_buckets: int >= 1; key: list(int)]
StringUpper(input: string) -> (output: string) [encoding: string = ""]
UnicodeDecode(input: string) -> (row_splits: Tsplits, char_values: s32)
    [input_encoding: string; errors: string in {"strict", "replace", "ignore"} = "replace"; replacement_char: int =
     65533; replace_control_characters: bool = false; Tsplits: type in INDEX = s64]
UnicodeDecodeWithOffsets(input: string) -> (row_splits: Tsplits, char_values: s32, char_to_byte_starts: s64)
    [input_encoding: string; errors: string in {"strict", "replace", "ignore"} = "replace"; replacement_char: int =
     65533; replace_control_characters: bool = false; Tsplits: type in INDEX = s64]
UnicodeEncode(input_values: s32, input_splits: Tsplits) -> (output: string)
    [errors: string in {"ignore", "replace", "strict"} = "replace"; output_encoding: string in {"UTF-8",
     "UTF-16-BE", "UTF-32-BE"}; replacement_char: int = 65533; Tsplits: type in INDEX = s64]
UnicodeScript(input: s32) -> (output: s32)
UnicodeTranscode(input: string) -> (output: string)
    [input_encoding: string; output_encoding: string in {"UTF-8", "UTF-16-BE", "UTF-32-BE"}; errors: string in
     {"strict", "replace", "ignore"} = "replace"; replacement_char: int = 65533; replace_control_characters: bool =
     false]
UnsortedSegmentJoin(inputs: string, segment_ids: Tindices, num_segments: Tnumsegments) -> (output: string)
    [separator: string = ""; Tindices: type in INDEX; Tnumsegments: type in INDEX = s32]
WriteFile(filename: string, contents: string) -> () stateful
"""
