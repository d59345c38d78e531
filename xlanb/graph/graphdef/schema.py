"""The protocol-buffer messages of TensorFlow graphs, from one table, without generated code.

Facts of tensorflow/core/framework/*.proto: message, field, number, type (see xlanb.protos for the
form of the table). Fields of newer versions stay in a message as unknown fields and are written
back unchanged.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from xlanb.display import Displayable
from xlanb.graph.dtypes import BY_NUMBER
from xlanb.protos import Schema

_PACKAGE = "xlanb.tensorflow"

_TABLE = """
message GraphDef
  1 node NodeDef*
  3 version int32
  2 library FunctionDefLibrary
  4 versions VersionDef
  5 debug_info bytes
message MetaGraphDef
  1 meta_info_def MetaInfoDef
  2 graph_def GraphDef
  3 saver_def SaverDef
  4 collection_def map:CollectionDef
  5 signature_def map:SignatureDef
  6 asset_file_def Opaque*
  7 object_graph_def Opaque
message MetaInfoDef
  1 meta_graph_version string
  2 stripped_op_list Opaque
  3 any_info Opaque
  4 tags string*
  5 tensorflow_version string
message SaverDef
  1 filename_tensor_name string
  2 save_tensor_name string
  3 restore_op_name string
  4 max_to_keep int32
  5 sharded bool
  6 keep_checkpoint_every_n_hours float
  7 version int32
message CollectionDef
  1 node_list CollectionNames (kind)
  2 bytes_list CollectionBytes (kind)
  3 int64_list CollectionIntegers (kind)
  4 float_list CollectionFloats (kind)
  5 any_list Opaque (kind)
message CollectionNames
  1 value string*
message CollectionBytes
  1 value bytes*
message CollectionIntegers
  1 value int64*
message CollectionFloats
  1 value float*
message VariableDef
  1 variable_name string
  2 initializer_name string
  3 snapshot_name string
  4 save_slice_info_def Opaque
  5 is_resource bool
  6 initial_value_name string
  7 trainable bool
  8 synchronization int32
  9 aggregation int32
message Opaque
message SignatureDef
  1 inputs map:TensorInfo
  2 outputs map:TensorInfo
  3 method_name string
message TensorInfo
  1 name string
  2 dtype DataType
  3 tensor_shape TensorShapeProto
message SavedModel
  1 saved_model_schema_version int64
  2 meta_graphs MetaGraphDef*
message Config
  1 feed Feed*
  2 fetch Fetch*
  3 variable FedVariable*
  4 conversion_options Opaque
message Feed
  1 id TensorId
  2 shape TensorShapeProto
  3 name string
  4 type DataType
message Fetch
  1 id TensorId
  2 name string
message FedVariable
  1 node_name string
  2 name string
  3 shape TensorShapeProto
  4 type DataType
  5 readonly bool
message TensorId
  1 node_name string
  2 output_index int64
message BundleHeaderProto
  1 num_shards int32
  2 endianness int32
  3 version VersionDef
message BundleEntryProto
  1 dtype int32
  2 shape TensorShapeProto
  3 shard_id int32
  4 offset int64
  5 size int64
  6 crc32c fixed32
  7 slices bytes*
message TrackableObjectGraph
  1 nodes TrackableObject*
message TrackableObject
  2 attributes SerializedTensor*
message SerializedTensor
  1 name string
  2 full_name string
  3 checkpoint_key string
message NodeDef
  1 name string
  2 op string
  3 input string*
  4 device string
  5 attr map:AttrValue
  6 experimental_debug_info ExperimentalDebugInfo
  7 experimental_type FullTypeDef
message ExperimentalDebugInfo
  1 original_node_names string*
  2 original_func_names string*
message FullTypeDef
  1 type_id FullTypeId
  2 args FullTypeDef*
  3 s string (attr)
  4 i int64 (attr)
message VersionDef
  1 producer int32
  2 min_consumer int32
  3 bad_consumers int32*
message AttrValue
  1 list ListValue (value)
  2 s bytes (value)
  3 i int64 (value)
  4 f float (value)
  5 b bool (value)
  6 type DataType (value)
  7 shape TensorShapeProto (value)
  8 tensor TensorProto (value)
  9 placeholder string (value)
  10 func NameAttrList (value)
message ListValue
  2 s bytes*
  3 i int64*
  4 f float*
  5 b bool*
  6 type DataType*
  7 shape TensorShapeProto*
  8 tensor TensorProto*
  9 func NameAttrList*
message NameAttrList
  1 name string
  2 attr map:AttrValue
message TensorShapeProto
  2 dim Dim*
  3 unknown_rank bool
message Dim
  1 size int64
  2 name string
message TensorProto
  1 dtype DataType
  2 tensor_shape TensorShapeProto
  3 version_number int32
  4 tensor_content bytes
  5 float_val float*
  6 double_val double*
  7 int_val int32*
  8 string_val bytes*
  9 scomplex_val float*
  10 int64_val int64*
  11 bool_val bool*
  12 dcomplex_val double*
  13 half_val int32*
  14 resource_handle_val bytes*
  15 variant_val bytes*
  16 uint32_val uint32*
  17 uint64_val uint64*
  18 float8_val bytes
message FunctionDefLibrary
  1 function FunctionDef*
  2 gradient GradientDef*
  3 registered_gradients bytes*
message GradientDef
  1 function_name string
  2 gradient_func string
message FunctionDef
  1 signature OpDef
  3 node_def NodeDef*
  4 ret map:string
  5 attr map:AttrValue
  6 control_ret map:string
  7 arg_attr intmap:ArgAttrs
  8 resource_arg_unique_id intmap:uint32
message ArgAttrs
  1 attr map:AttrValue
message OpDef
  1 name string
  2 input_arg ArgDef*
  3 output_arg ArgDef*
  4 attr AttrDef*
  5 summary string
  6 description string
  8 deprecation bytes
  16 is_aggregate bool
  17 is_stateful bool
  18 is_commutative bool
  19 allows_uninitialized_input bool
  20 control_output string*
  21 is_distributed_communication bool
message ArgDef
  1 name string
  2 description string
  3 type DataType
  4 type_attr string
  5 number_attr string
  6 type_list_attr string
  7 handle_data bytes*
  16 is_ref bool
  17 experimental_full_type FullTypeDef
message AttrDef
  1 name string
  2 type string
  3 default_value AttrValue
  4 description string
  5 has_minimum bool
  6 minimum int64
  7 allowed_values AttrValue
"""

_FULL_TYPES = {
    "UNSET": 0, "VAR": 1, "ANY": 2, "PRODUCT": 3, "NAMED": 4, "FOR_EACH": 20, "CALLABLE": 100, "BOOL": 200,
    "UINT8": 201,
    "UINT16": 202, "UINT32": 203, "UINT64": 204, "INT8": 205, "INT16": 206, "INT32": 207, "INT64": 208, "HALF": 209,
    "FLOAT": 210,
    "DOUBLE": 211, "COMPLEX64": 212, "COMPLEX128": 213, "STRING": 214, "BFLOAT16": 215, "TENSOR": 1000, "ARRAY": 1001,
    "OPTIONAL": 1002, "LITERAL": 1003, "ENCODED": 1004, "SHAPE_TENSOR": 1005, "DATASET": 10102, "RAGGED": 10103,
    "ITERATOR": 10104, "MUTEX_LOCK": 10202, "LEGACY_VARIANT": 10203,
}  # fmt: skip


def _data_types() -> dict[str, int]:
    names = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}
    numbers = {"DT_INVALID": 0}
    for number, dtype in sorted(BY_NUMBER.items()):
        base = dtype.base_dtype.name
        numbers[f"DT_{names.get(base, base.upper())}{'_REF' if dtype.is_ref_dtype else ''}"] = number
    return numbers


@cache
def message_class(name: str) -> Any:
    """The class of a message: "GraphDef", "NodeDef", "AttrValue", ..."""
    found = getattr(_schema(), name)
    if name == "GraphDef":  # in a notebook it shows the graph, and not a page of text
        found._repr_mimebundle_ = Displayable._repr_mimebundle_
    return found


@cache
def _schema() -> Schema:
    enums = {"DataType": _data_types(), "FullTypeId": {f"TFT_{n}": k for n, k in _FULL_TYPES.items()}}
    return Schema(_PACKAGE, _TABLE, enums)
