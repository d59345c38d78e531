"""The protocol-buffer messages of TensorFlow graphs, described here and made by protobuf's runtime: no generated code, no TensorFlow.

Facts of tensorflow/core/framework/*.proto: message, field, number, type. What newer versions add stays in a message as unknown fields and is
written back as it was read.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "xlanb.tensorflow"

# Message: fields "name number type", with * for repeated, ** for packed, and (name) for a member of that oneof; "map" fields are map<string, type>.
_MESSAGES: dict[str, str] = {
    "GraphDef": "node 1 NodeDef*; version 3 int32; library 2 FunctionDefLibrary; versions 4 VersionDef; debug_info 5 bytes",
    "MetaGraphDef": (
        "meta_info_def 1 MetaInfoDef; graph_def 2 GraphDef; saver_def 3 Opaque; collection_def 4 map Opaque; signature_def 5 map SignatureDef; "
        "asset_file_def 6 Opaque*; object_graph_def 7 Opaque"
    ),
    "MetaInfoDef": "meta_graph_version 1 string; stripped_op_list 2 Opaque; any_info 3 Opaque; tags 4 string*; tensorflow_version 5 string",
    "Opaque": "",  # what is carried along unread
    "SignatureDef": "inputs 1 map TensorInfo; outputs 2 map TensorInfo; method_name 3 string",
    "TensorInfo": "name 1 string; dtype 2 DataType; tensor_shape 3 TensorShapeProto",
    "SavedModel": "saved_model_schema_version 1 int64; meta_graphs 2 MetaGraphDef*",
    "BundleHeaderProto": "num_shards 1 int32; endianness 2 int32",
    "BundleEntryProto": (
        "dtype 1 int32; shape 2 TensorShapeProto; shard_id 3 int32; offset 4 int64; size 5 int64; crc32c 6 fixed32; slices 7 bytes*"
    ),
    "TrackableObjectGraph": "nodes 1 TrackableObject*",
    "TrackableObject": "attributes 2 SerializedTensor*",
    "SerializedTensor": "name 1 string; full_name 2 string; checkpoint_key 3 string",
    "NodeDef": (
        "name 1 string; op 2 string; input 3 string*; device 4 string; attr 5 map AttrValue; "
        "experimental_debug_info 6 ExperimentalDebugInfo; experimental_type 7 FullTypeDef"
    ),
    "ExperimentalDebugInfo": "original_node_names 1 string*; original_func_names 2 string*",
    "FullTypeDef": "type_id 1 FullTypeId; args 2 FullTypeDef*; s 3 string (attr); i 4 int64 (attr)",
    "VersionDef": "producer 1 int32; min_consumer 2 int32; bad_consumers 3 int32**",
    "AttrValue": (
        "list 1 ListValue (value); s 2 bytes (value); i 3 int64 (value); f 4 float (value); b 5 bool (value); type 6 DataType (value); "
        "shape 7 TensorShapeProto (value); tensor 8 TensorProto (value); placeholder 9 string (value); func 10 NameAttrList (value)"
    ),
    "ListValue": (
        "s 2 bytes*; i 3 int64**; f 4 float**; b 5 bool**; type 6 DataType**; shape 7 TensorShapeProto*; tensor 8 TensorProto*; "
        "func 9 NameAttrList*"
    ),
    "NameAttrList": "name 1 string; attr 2 map AttrValue",
    "TensorShapeProto": "dim 2 Dim*; unknown_rank 3 bool",
    "Dim": "size 1 int64; name 2 string",
    "TensorProto": (
        "dtype 1 DataType; tensor_shape 2 TensorShapeProto; version_number 3 int32; tensor_content 4 bytes; float_val 5 float**; "
        "double_val 6 double**; int_val 7 int32**; string_val 8 bytes*; scomplex_val 9 float**; int64_val 10 int64**; bool_val 11 bool**; "
        "dcomplex_val 12 double**; half_val 13 int32**; resource_handle_val 14 bytes*; variant_val 15 bytes*; uint32_val 16 uint32**; "
        "uint64_val 17 uint64**; float8_val 18 bytes"
    ),
    "FunctionDefLibrary": "function 1 FunctionDef*; gradient 2 GradientDef*; registered_gradients 3 bytes*",
    "GradientDef": "function_name 1 string; gradient_func 2 string",
    "FunctionDef": (
        "signature 1 OpDef; node_def 3 NodeDef*; ret 4 map string; attr 5 map AttrValue; control_ret 6 map string; "
        "arg_attr 7 intmap ArgAttrs; resource_arg_unique_id 8 intmap uint32"
    ),
    "ArgAttrs": "attr 1 map AttrValue",
    "OpDef": (
        "name 1 string; input_arg 2 ArgDef*; output_arg 3 ArgDef*; attr 4 AttrDef*; summary 5 string; description 6 string; "
        "deprecation 8 bytes; is_aggregate 16 bool; is_stateful 17 bool; is_commutative 18 bool; allows_uninitialized_input 19 bool; "
        "control_output 20 string*; is_distributed_communication 21 bool"
    ),
    "ArgDef": (
        "name 1 string; description 2 string; type 3 DataType; type_attr 4 string; number_attr 5 string; type_list_attr 6 string; "
        "handle_data 7 bytes*; is_ref 16 bool; experimental_full_type 17 FullTypeDef"
    ),
    "AttrDef": (
        "name 1 string; type 2 string; default_value 3 AttrValue; description 4 string; has_minimum 5 bool; minimum 6 int64; "
        "allowed_values 7 AttrValue"
    ),
}

_FULL_TYPES = {
    "UNSET": 0, "VAR": 1, "ANY": 2, "PRODUCT": 3, "NAMED": 4, "FOR_EACH": 20, "CALLABLE": 100, "BOOL": 200, "UINT8": 201,
    "UINT16": 202, "UINT32": 203, "UINT64": 204, "INT8": 205, "INT16": 206, "INT32": 207, "INT64": 208, "HALF": 209, "FLOAT": 210,
    "DOUBLE": 211, "COMPLEX64": 212, "COMPLEX128": 213, "STRING": 214, "BFLOAT16": 215, "TENSOR": 1000, "ARRAY": 1001,
    "OPTIONAL": 1002, "LITERAL": 1003, "ENCODED": 1004, "SHAPE_TENSOR": 1005, "DATASET": 10102, "RAGGED": 10103,
    "ITERATOR": 10104, "MUTEX_LOCK": 10202, "LEGACY_VARIANT": 10203,
}  # fmt: skip
_ENUMS = ("DataType", "FullTypeId")

_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12, "uint32": 13, "fixed32": 7,
}  # fmt: skip
_MESSAGE, _ENUM = 11, 14


def _data_types(file: descriptor_pb2.FileDescriptorProto) -> None:
    from xlanb.graph.dtypes import BY_NUMBER

    names = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}
    enum = file.enum_type.add(name="DataType")
    enum.value.add(name="DT_INVALID", number=0)
    for number, dtype in sorted(BY_NUMBER.items()):
        base = dtype.base_dtype.name
        enum.value.add(name=f"DT_{names.get(base, base.upper())}{'_REF' if dtype.is_ref_dtype else ''}", number=number)


def _full_types(file: descriptor_pb2.FileDescriptorProto) -> None:
    enum = file.enum_type.add(name="FullTypeId")
    for name, number in _FULL_TYPES.items():
        enum.value.add(name=f"TFT_{name}", number=number)


def _add_field(message: Any, text: str) -> None:
    name, number, *rest = text.split()
    field = message.field.add(name=name, number=int(number), label=1)
    kind = rest[0]
    if kind in {"map", "intmap"}:
        entry_name = "".join(p.capitalize() for p in name.split("_")) + "Entry"
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, type=_SCALARS["string" if kind == "map" else "uint32"])
        _set_type(entry.field.add(name="value", number=2, label=1), rest[1])
        field.label, field.type, field.type_name = 3, _MESSAGE, f".{_PACKAGE}.{message.name}.{entry_name}"
        return
    if kind.endswith("*"):
        field.label = 3
        if kind.endswith("**"):
            field.options.packed = True
    _set_type(field, kind.rstrip("*"))
    if len(rest) > 1:
        if not message.oneof_decl:
            message.oneof_decl.add(name=rest[1].strip("()"))
        field.oneof_index = 0


def _set_type(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = (_ENUM if kind in _ENUMS else _MESSAGE), f".{_PACKAGE}.{kind}"


@cache
def message_class(name: str) -> Any:
    """The class of a message: "GraphDef", "NodeDef", "AttrValue", ..."""
    return _classes()[name]


@cache
def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="xlanb/tensorflow_graph.proto", package=_PACKAGE, syntax="proto3")
    _data_types(file)
    _full_types(file)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in filter(None, fields.split(";")):
            _add_field(message, text.strip())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }
