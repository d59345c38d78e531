"""Constraints of StableHLO on attributes beyond those of HLO (stablehlo/dialect/TypeInference.cpp,
StablehloOps.cpp).
"""

from __future__ import annotations

import re
from typing import Any

from xlanb.frontends.stablehlo.elements import Elements
from xlanb.frontends.stablehlo.ir import FunctionType, Opaque, StablehloOperation, StablehloType, Symbol, TensorType
from xlanb.frontends.stablehlo.scope import RegionScope, constraint, is_integer

_PRECISIONS = frozenset({"DEFAULT", "HIGH", "HIGHEST"})
_OP_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*(?:\.[a-zA-Z0-9_$]+)+")
_DEVICE_TO_DEVICE, _DEVICE_TO_HOST, _HOST_TO_DEVICE = 1, 2, 3
_UNIFIED, _TYPED_FFI = 3, 4


@constraint("stablehlo.dot", "stablehlo.dot_general", "stablehlo.convolution", "stablehlo.dynamic_conv")
def _precision(s: RegionScope, op: StablehloOperation) -> None:
    words = op.attributes.get("precision_config", ())
    if not isinstance(words, tuple) or len(words) > 2 or any(w not in _PRECISIONS for w in words):
        s.fail(op, f"expected at most two of {', '.join(sorted(_PRECISIONS))} as 'precision_config'")


@constraint("stablehlo.dot_general")
def _algorithm(s: RegionScope, op: StablehloOperation) -> None:
    fields = s.fields(op, "algorithm")
    for name in ("lhs_component_count", "rhs_component_count", "num_primitive_operations"):
        if fields and s.number(op, fields, name, 1) < 1:
            s.fail(op, f"expected a positive {name}")


@constraint("stablehlo.convolution", "stablehlo.dynamic_conv")
def _same_kind(s: RegionScope, op: StablehloOperation) -> None:
    types = [v.type for v in op.operands[:2]]
    x, kernel = types if len(types) == 2 else (None, None)
    if not isinstance(x, TensorType) or not isinstance(kernel, TensorType):
        return
    if x.element is not None and kernel.element is not None and x.element is not kernel.element:
        s.fail(op, f"expected operands of one element type, not {x.element_text} and {kernel.element_text}")


@constraint("stablehlo.composite")
def _composite(s: RegionScope, op: StablehloOperation) -> None:
    name = op.attributes.get("name")
    if not isinstance(name, str) or not _OP_NAME.fullmatch(name):
        s.fail(op, f"expected a name with the namespace of its dialect, such as dialect.op, not {name!r}")
    symbol = op.attributes.get("decomposition")
    called = s.program.functions.get(symbol.name if isinstance(symbol, Symbol) else str(symbol))
    type_ = called.attributes.get("function_type") if called is not None else None
    if not isinstance(type_, FunctionType):
        return
    _same_types(s, op, "operand", [v.type for v in op.operands], list(type_.inputs))
    _same_types(s, op, "result", [v.type for v in op.results], list(type_.results))


def _same_types(
    s: RegionScope, op: StablehloOperation, what: str, here: list[StablehloType], there: list[StablehloType]
) -> None:
    if len(here) != len(there):
        s.fail(op, f"has {len(here)} {what}s, but its decomposition {len(there)}")
    for n, (a, b) in enumerate(zip(here, there, strict=True)):
        if not _compatible(a, b):
            s.fail(op, f"{what} {n} is {a}, but {b} in its decomposition")


def _compatible(a: StablehloType, b: StablehloType) -> bool:
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a == b
    same = a.element_text == b.element_text and len(a.dimensions) == len(b.dimensions)
    return same and all(x is None or y is None or x == y for x, y in zip(a.dimensions, b.dimensions, strict=True))


@constraint("stablehlo.infeed", "stablehlo.recv")
def _arrays_before_a_token(s: RegionScope, op: StablehloOperation) -> None:
    for value in op.results[:-1]:
        if not isinstance(value.type, TensorType):
            s.fail(op, f"expected arrays and a token as results, not {value.type} before the last")


@constraint("stablehlo.infeed")
def _infeed_layout(s: RegionScope, op: StablehloOperation) -> None:
    layout = op.attributes.get("layout")
    if layout is None:
        return
    if not isinstance(layout, tuple) or len(layout) != len(op.results) - 1:
        s.fail(op, f"expected a layout for each of {len(op.results) - 1} arrays")
    for one in layout:
        if not isinstance(one, tuple) or not all(map(is_integer, one)):
            s.fail(op, f"expected a layout to list dimensions, not {one}")


@constraint("stablehlo.send", "stablehlo.recv")
def _channel_type(s: RegionScope, op: StablehloOperation) -> None:
    on_host = _HOST_TO_DEVICE if op.name == "stablehlo.recv" else _DEVICE_TO_HOST
    wanted = on_host if s.flag(op, "is_host_transfer") else _DEVICE_TO_DEVICE
    kind = s.fields(op, "channel_handle").get("type", wanted)
    if kind != wanted:
        s.fail(op, f"expected a channel of type {wanted} for is_host_transfer as it is here, not {kind}")


@constraint("stablehlo.map")
def _mapped(s: RegionScope, op: StablehloOperation) -> None:
    """Every dimension of the operands, in order."""
    type_ = op.operands[0].type if op.operands else None
    given = op.attributes.get("dimensions")
    if not isinstance(type_, TensorType) or given is None:
        return
    found = [int(d) for d in given.full().reshape(-1)] if isinstance(given, Elements) else list(given)
    if found != list(range(len(type_.dimensions))):
        s.fail(op, f"expected all {len(type_.dimensions)} dimensions in order, not {found}")


@constraint("stablehlo.custom_call")
def _layouts(s: RegionScope, op: StablehloOperation) -> None:
    names = ("operand_layouts", "result_layouts")
    given = [op.attributes.get(n) for n in names]
    if given == [None, None]:
        return
    if None in given:
        s.fail(op, "expected operand_layouts and result_layouts, or neither")
    for layouts, values in zip(given, (op.operands, op.results), strict=True):
        types = [v.type for v in values]
        if not isinstance(layouts, tuple) or len(layouts) != len(types):
            continue  # a layout for the elements of a tuple, or one that does not fit: the lowering says so
        for layout, type_ in zip(layouts, types, strict=True):
            rank = layout.full().size if isinstance(layout, Elements) else 0
            if rank and not isinstance(type_, TensorType):
                s.fail(op, f"expected an empty layout for {type_}, which is not an array")


@constraint("stablehlo.custom_call")
def _backend_config(s: RegionScope, op: StablehloOperation) -> None:
    version, config = op.attributes.get("api_version", 1), op.attributes.get("backend_config")
    if config is None:
        return
    is_text = isinstance(config, str) and not isinstance(config, Opaque)
    if version == _TYPED_FFI and is_text and config:
        s.fail(op, "expected a dictionary as backend_config of a call with a typed interface (api_version 4)")
    if version == _UNIFIED and not is_text:
        s.fail(op, f"expected a string as backend_config of a call with api_version {version}")


@constraint("stablehlo.all_to_all")
def _group_size(s: RegionScope, op: StablehloOperation) -> None:
    groups, count = op.attributes.get("replica_groups"), op.attributes.get("split_count")
    if not isinstance(groups, Elements) or len(groups.dimensions) != 2:
        return
    if groups.dimensions[1] != count:
        s.fail(
            op, f"expected replica_groups of {count} participants, as many as the pieces, not {groups.dimensions[1]}"
        )


@constraint(
    "stablehlo.all_gather",
    "stablehlo.all_reduce",
    "stablehlo.all_to_all",
    "stablehlo.collective_broadcast",
    "stablehlo.reduce_scatter",
)
def _group_members(s: RegionScope, op: StablehloOperation) -> None:
    groups: Any = op.attributes.get("replica_groups")
    if isinstance(groups, Elements) and (groups.array < -1).any():
        s.fail(op, "expected participants from 0 on in replica_groups, and -1 where a group has fewer than the others")


@constraint("stablehlo.gather", "stablehlo.dynamic_gather")
def _batching(s: RegionScope, op: StablehloOperation) -> None:
    """Check that batching dimensions have equal sizes and are not indexed; XLA checks only
    scatters.
    """
    fields = s.fields(op, "dimension_numbers")
    of_x, of_indices = (s.dims(op, fields, f"{n}_batching_dims") for n in ("operand", "start_indices"))
    indexed = set(of_x) & set(s.dims(op, fields, "start_index_map"))
    if indexed:
        s.fail(op, f"expected operand_batching_dims apart from start_index_map, not {sorted(indexed)} in both")
    types = [v.type for v in op.operands[:2]]
    if len(types) != 2 or not all(isinstance(t, TensorType) for t in types):
        return
    for i, j in zip(of_x, of_indices, strict=False):
        sizes = [t.dimensions[d : d + 1] for t, d in zip(types, (i, j), strict=True) if isinstance(t, TensorType)]
        if sizes[0] != sizes[1] and (None,) not in sizes:
            s.fail(op, f"expected batching dimensions of equal size, not {i} and {j} of {types[0]} and {types[1]}")


@constraint("stablehlo.collective_broadcast")
def _roots(s: RegionScope, op: StablehloOperation) -> None:
    """Check has_dynamic_root: the last operand gives the sender for each of the others."""
    if not s.flag(op, "has_dynamic_root"):
        return
    if len(op.operands) < 2:
        s.fail(op, "expected data and their roots as operands")
    roots = op.operands[-1].type
    count = len(op.operands) - 1
    if isinstance(roots, TensorType) and (roots.dimensions != (count,) or roots.element_text != "i32"):
        s.fail(op, f"expected a root for each operand but the last as tensor<{count}xi32>, not {roots}")
