"""Print HLO text: XLA's canonical text exactly, its short form, and a form for people.

Everything is printed from records. The table of opcode.py gives the attributes of each opcode in
order.
Source: hlo_instruction.cc, hlo_module.cc: Print.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from xlanb.errors import ShapeError
from xlanb.hlo.attributes import (
    NO_METADATA,
    ConvolutionDimensionNumbers,
    PaddingDimension,
    SliceDimension,
    Window,
)
from xlanb.hlo.module import OPERAND_INDEX_INTERVAL, HloModule, parse_text, print_form, reread
from xlanb.hlo.names import escape
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import (
    ComputationName,
    ComputationRecord,
    InstructionRecord,
    ModuleRecord,
    print_instruction,
    print_module,
)
from xlanb.hlo.text.literal_text import float_text, literal_text, typed_literal_text
from xlanb.hlo.text.parse_metadata import (
    frontend_attributes_text,
    is_shown,
    metadata_text,
    quoted_or_json,
)
from xlanb.hlo.text.parse_sharding import sharding_elements
from xlanb.hlo.text.spelling import spelled, spelled_header
from xlanb.lazy_dataclass import dataclass
from xlanb.patterns import pattern
from xlanb.shape import PrimitiveType, Shape, TupleShape


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """What is printed, by the names of HloPrintOptions; the defaults give XLA's canonical text."""

    percent: bool = True
    layouts: bool = True
    result_shape: bool = True
    operand_shapes: bool = False
    operand_indices: bool = True
    program_shape: bool = True
    metadata: bool = True
    backend_config: bool = True
    large_constants: bool = False
    sharding: bool = True
    frontend_attributes: bool = True
    control_dependencies: bool = True
    origin: bool = True
    statistics: bool = True
    header: bool = True
    entry_layout: bool = True
    default_layouts: bool = True
    async_sugar: bool = True
    inline_elements: bool = False
    spelling: str = "0.10.2"

    @staticmethod
    def canonical() -> PrintOptions:
        """XLA's canonical text."""
        return _CANONICAL

    @staticmethod
    def short_parsable() -> PrintOptions:
        """XLA's ShortParsable: no %, no metadata, full constants; it parses to the same module."""
        return _SHORT

    @staticmethod
    def compact() -> PrintOptions:
        """XLA's canonical text with tuple elements as `p#0` where they are used.

        It parses to the same module except for the names of those elements.
        """
        return _COMPACT

    @staticmethod
    def xla_0_12() -> PrintOptions:
        """The canonical text of the XLA in JAX 0.12; spelling.py has the differences."""
        return _XLA_0_12

    @staticmethod
    def human() -> PrintOptions:
        """Omit details for readers.

        Omitted are %, row-major layouts, metadata, backend configuration, shardings of one device.
        """
        return _HUMAN


_CANONICAL = PrintOptions()
_SHORT = PrintOptions(percent=False, program_shape=False, metadata=False, large_constants=True, operand_indices=False)
_COMPACT = PrintOptions(inline_elements=True)
_XLA_0_12 = PrintOptions(spelling="0.12")
_HUMAN = PrintOptions(
    percent=False,
    program_shape=False,
    metadata=False,
    backend_config=False,
    operand_indices=False,
    default_layouts=False,
    entry_layout=False,
    frontend_attributes=False,
    origin=False,
    statistics=False,
)


# -- modules ---------------------------------------------------------------------------------------


def module_text(record: ModuleRecord, options: PrintOptions = _CANONICAL) -> str:
    """The text of a module; it ends in two newlines, as XLA's does."""
    parts = [_header_line(record, options)]
    if record.tables and options.metadata:
        parts.append(record.tables)
    wrapped = _sugared_computations(record) if options.async_sugar else frozenset()
    shown = (c for c in record.computations if c.name not in wrapped)
    parts.extend(computation_text(c, is_entry=c.name == record.entry, options=options) for c in shown)
    return "\n\n".join(parts) + "\n\n"


print_module.implement(module_text)


@reread.implement
def _reread(record: ModuleRecord) -> HloModule:
    return parse_text(module_text(record, PrintOptions(large_constants=True)))


@print_form.implement
def form_text(record: ModuleRecord, form: str) -> str:
    """The text in one of XLA's forms, by its name; see HloModule.to_string.

    Raises:
        ShapeError: there is no such form.
    """
    forms = {
        "canonical": PrintOptions.canonical,
        "compact": PrintOptions.compact,
        "short": PrintOptions.short_parsable,
        "human": PrintOptions.human,
        "0.12": PrintOptions.xla_0_12,
    }
    if form not in forms:
        raise ShapeError(f"unknown form {form!r} of HLO text; known forms: {', '.join(forms)}")
    return module_text(record, forms[form]())


def _header_line(record: ModuleRecord, options: PrintOptions) -> str:
    fields = [
        f"{_BEFORE.get(name, ', ')}{name}={spelled_header(name, text, options.spelling)}"
        for name, text in record.header
        if options.entry_layout or name != "entry_computation_layout"
        if options.frontend_attributes or name != "frontend_attributes"
    ]
    return f"HloModule {record.name}{''.join(fields)}"


def _sugared_computations(record: ModuleRecord) -> frozenset[str]:
    """Computations that are not printed, since an async-start shows them in full.

    Those that others also call are printed.
    """
    every = [i for c in record.computations for i in c.instructions]
    starts = [i for i in every if i.opcode is HloOpcode.ASYNC_START and i.attributes.get(WRAPPED) is not None]
    names = frozenset(i.attributes["calls"].name for i in starts)
    if not names:
        return names
    others = (i for i in every if i.opcode not in _ASYNC_SUFFIX)
    return names.difference(*(i.called_computations for i in others if i.attributes))


_BEFORE = {"debug_attributes": ",\n"}


# -- computations ----------------------------------------------------------------------------------


def computation_text(record: ComputationRecord, *, is_entry: bool = False, options: PrintOptions = _CANONICAL) -> str:
    """The text of a computation, without a newline at the end."""
    percent = "%" if options.percent else ""
    lines = [f"{'ENTRY ' if is_entry else ''}{percent}{record.name} "]
    if options.program_shape:
        parameters = sorted(
            (i for i in record.instructions if i.opcode is HloOpcode.PARAMETER),
            key=lambda i: int(i.attributes["parameter_number"]),
        )
        listed = ", ".join(f"{p.name}: {_plain(p.shape)}" for p in parameters)
        lines[0] += f"({listed}) -> {_plain(record.by_name[record.root].shape)} "
    lines[0] += "{"
    names = record.by_name if options.operand_shapes else None
    shown = record.instructions
    if options.inline_elements:
        shown, inlined = _with_inline_elements(record)
        names = {**record.by_name, **inlined} if options.operand_shapes else None
    lines.extend(("  ROOT " if i.is_root else "  ") + instruction_text(i, options, names) for i in shown)
    thread = f', execution_thread="{escape(record.execution_thread)}"' if record.execution_thread else ""
    lines.append("}" + thread)
    return "\n".join(lines)


def _with_inline_elements(
    record: ComputationRecord,
) -> tuple[tuple[InstructionRecord, ...], dict[str, InstructionRecord]]:
    """The instructions with `p#0` for operands that are tuple elements, without those elements.

    Also returns the element of each such text.
    """
    waited_for = {name for i in record.instructions for name in i.control_predecessors}
    texts: dict[str, str] = {}
    inlined: dict[str, InstructionRecord] = {}
    shown = []
    for i in record.instructions:
        operands = tuple(texts.get(o, o) for o in i.operands)
        if _is_bare_element(i) and i.name not in waited_for and i.name != record.root:
            texts[i.name] = f"{operands[0]}#{i.attributes['index']}"
            inlined[texts[i.name]] = i
        else:
            shown.append(i if operands == i.operands else replace(i, operands=operands))
    return tuple(shown), inlined


def _is_bare_element(i: InstructionRecord) -> bool:
    """Whether it is a get-tuple-element with nothing else to print than metadata."""
    others = (i.sharding, i.frontend_attributes, i.control_predecessors, i.statistics, i.origin, i.backend_config)
    return i.opcode is HloOpcode.GET_TUPLE_ELEMENT and not any(others)


@functools.lru_cache(maxsize=4096)
def _plain(shape: Shape) -> str:
    return shape.text(layout=False)


@functools.lru_cache(maxsize=4096)
def _without_default_layouts(shape: Shape) -> str:
    """The shape with only layouts that are not row-major."""
    if isinstance(shape, TupleShape):
        return "(" + ", ".join(map(_without_default_layouts, shape.shapes)) + ")"
    layout = getattr(shape, "layout", None)
    return shape.text(layout=layout is not None and not layout.is_default)


def _shape(shape: Shape, options: PrintOptions) -> str:
    if not options.layouts:
        return _plain(shape)
    return str(shape) if options.default_layouts else _without_default_layouts(shape)


# -- instructions ----------------------------------------------------------------------------------

WRAPPED = "async_wrapped"
"""Attribute of an async instruction's record: the record of the only instruction it runs."""

_ASYNC_SUFFIX = {HloOpcode.ASYNC_START: "-start", HloOpcode.ASYNC_UPDATE: "-update", HloOpcode.ASYNC_DONE: "-done"}


def instruction_text(
    record: InstructionRecord, options: PrintOptions = _CANONICAL, names: Mapping[str, InstructionRecord] | None = None
) -> str:
    """One instruction's line, without indentation and without ROOT.

    `names` gives the other instructions of the computation, needed only to print operand shapes.
    """
    percent = "%" if options.percent else ""
    wrapped: InstructionRecord | None = None
    opcode = record.opcode.text
    suffix = _ASYNC_SUFFIX.get(record.opcode)
    if suffix and options.async_sugar:
        wrapped = record.attributes.get(WRAPPED)
        if wrapped is not None:
            opcode = wrapped.opcode.text + suffix
    out = [percent, record.name, " = "]
    if options.result_shape:
        out += [_shape(record.shape, options), " "]
    out += [opcode, "(", _operands(record, options, names), ")"]
    if wrapped is None and record.opcode is HloOpcode.ASYNC_START:
        _attributes(record, options, out, skip=("calls", "async_execution_thread"))
        _attributes(record, options, out, skip=("output_to_operand_aliasing",))
    elif wrapped is None or record.opcode is not HloOpcode.ASYNC_START:
        _attributes(record, options, out)
    else:
        _attributes(record, options, out, skip=("calls", "output_to_operand_aliasing"))
        _attributes(wrapped, options, out)
        _attributes(record, options, out, skip=("calls", "async_execution_thread"))
        if wrapped.statistics and options.statistics:
            out.append(f", statistics={wrapped.statistics}")  # XLA prints both
    _common(_with_wrapped(record, wrapped), options, out)
    return "".join(out)


print_instruction.implement(instruction_text)


def _with_wrapped(record: InstructionRecord, wrapped: InstructionRecord | None) -> InstructionRecord:
    """An async-start with the attributes of its wrapped instruction, if it has none itself."""
    if wrapped is None or record.opcode is not HloOpcode.ASYNC_START:
        return record
    return replace(
        record,
        sharding=record.sharding or wrapped.sharding,
        frontend_attributes=record.frontend_attributes or wrapped.frontend_attributes,
        statistics=record.statistics or wrapped.statistics,
    )


def _operands(record: InstructionRecord, options: PrintOptions, names: Mapping[str, InstructionRecord] | None) -> str:
    if record.opcode is HloOpcode.PARAMETER:
        return str(record.attributes["parameter_number"])
    if record.opcode is HloOpcode.CONSTANT:
        return literal_text(record.attributes["literal"], large=options.large_constants)
    percent = "%" if options.percent else ""
    texts = [percent + o for o in record.operands]
    if options.operand_shapes and names is not None:
        texts = [f"{_shape(names[o].shape, options)} {t}" for o, t in zip(record.operands, texts, strict=True)]
    if options.operand_indices and len(texts) > OPERAND_INDEX_INTERVAL:
        for i in range(OPERAND_INDEX_INTERVAL, len(texts), OPERAND_INDEX_INTERVAL):
            texts[i] = f"/*index={i}*/{texts[i]}"
    return ", ".join(texts)


def _attributes(record: InstructionRecord, options: PrintOptions, out: list[str], skip: tuple[str, ...] = ()) -> None:
    if record.opcode is HloOpcode.CONSTANT:
        return
    attributes, shown_defaults = spelled(record, options.spelling)
    if not attributes:
        return
    for row in record.opcode.attributes:
        value = attributes.get(row.name)
        if value is None or row.name == "parameter_number" or row.name in skip:
            continue
        if value == row.default and row.name not in shown_defaults:
            continue
        if row.kind == "window" and not value.dimensions and record.opcode is not HloOpcode.CUSTOM_CALL:
            continue
        if value == "" and row.name in _NOT_EMPTY:
            continue
        out.append(f", {row.name}={_WRITERS[row.kind](value, options)}")


_NOT_EMPTY = frozenset(("infeed_config", "outfeed_config", "result_accuracy", "block_scaling_config"))
"""Attributes whose empty value XLA does not print."""


def _common(record: InstructionRecord, options: PrintOptions, out: list[str]) -> None:
    """Print the fields that any instruction may have, in XLA's order."""
    if record.sharding and options.sharding:
        out.append(f", sharding={_sharding(record.sharding, options)}")
    if record.frontend_attributes and options.frontend_attributes:
        out.append(f", frontend_attributes={frontend_attributes_text(record.frontend_attributes)}")
    if record.control_predecessors and options.control_dependencies:
        percent = "%" if options.percent else ""
        out.append(f", control-predecessors={{{', '.join(percent + p for p in record.control_predecessors)}}}")
    if record.statistics and options.statistics:
        out.append(f", statistics={record.statistics}")
    if record.origin and options.origin:
        out.append(f", origin={record.origin}")
    if options.metadata and record.metadata is not NO_METADATA and is_shown(record.metadata):
        out.append(f", metadata={{{metadata_text(record.metadata)}}}")
    if record.backend_config and options.backend_config:
        out.append(f", backend_config={quoted_or_json(_NO_QUEUES.sub('', record.backend_config))}")


_NO_QUEUES = pattern(r'"wait_on_operation_queues"\s*:\s*\[\s*\]\s*,')
"""XLA omits empty wait_on_operation_queues from a GPU's backend config."""


def _sharding(text: str, options: PrintOptions) -> str:
    """The sharding; every fifth part of a tuple's is numbered by a comment, as operands are."""
    if not text.startswith("{{") or not options.operand_indices:
        return text
    parts = sharding_elements(text)
    if len(parts) <= OPERAND_INDEX_INTERVAL:
        return text
    for i in range(OPERAND_INDEX_INTERVAL, len(parts), OPERAND_INDEX_INTERVAL):
        parts[i] = f"/*index={i}*/{parts[i]}"
    return "{" + ", ".join(parts) + "}"


# -- attribute values ------------------------------------------------------------------------------


def _computation(value: ComputationName, options: PrintOptions) -> str:
    return ("%" if options.percent else "") + value.name


def _computations(value: tuple[ComputationName, ...], options: PrintOptions) -> str:
    return "{" + ", ".join(_computation(v, options) for v in value) + "}"


def _ints(value: tuple[int, ...], _: Any = None) -> str:
    return "{" + ",".join(map(str, value)) + "}"


def _int_lists(value: tuple[tuple[int, ...], ...], _: Any = None) -> str:
    return "{" + ",".join(map(_ints, value)) + "}"


def _string(value: str, _: Any = None) -> str:
    return f'"{escape(value)}"'


def window_text(window: Window, _: Any = None) -> str:
    """The text of a window without parts that have default values.

    `{size=1x2 stride=1x2 pad=0_0x1_1 lhs_dilate=.. rhs_dilate=.. rhs_reversal=..}`
    """
    dims = window.dimensions

    def joined(name: str, values: list[Any], default: Any) -> str:
        return "" if all(v == default for v in values) else f" {name}={'x'.join(map(str, values))}"

    text = f"size={'x'.join(str(d.size) for d in dims)}" if dims else ""
    text += joined("stride", [d.stride for d in dims], 1)
    text += joined("pad", [f"{d.padding_low}_{d.padding_high}" for d in dims], "0_0")
    text += joined("lhs_dilate", [d.base_dilation for d in dims], 1)
    text += joined("rhs_dilate", [d.window_dilation for d in dims], 1)
    text += joined("rhs_reversal", [int(d.reversal) for d in dims], 0)
    return "{" + text + "}"


def padding_text(padding: tuple[PaddingDimension, ...], _: Any = None) -> str:
    """`0_0x3_3_1`; interior padding is shown for all dimensions if any has some."""
    interior = any(d.interior for d in padding)
    return "x".join(f"{d.low}_{d.high}" + (f"_{d.interior}" if interior else "") for d in padding)


def slices_text(slices: tuple[SliceDimension, ...], _: Any = None) -> str:
    """`{[0:2], [1:8:2]}`; strides are shown for all dimensions if any is not 1."""
    strides = any(d.stride != 1 for d in slices)
    return "{" + ", ".join(f"[{d.start}:{d.limit}" + (f":{d.stride}]" if strides else "]") for d in slices) + "}"


def dim_labels_text(numbers: ConvolutionDimensionNumbers, _: Any = None) -> str:
    """`b01f_01io->b01f`; dimensions without a role are `?`."""

    def labels(letters: dict[str, int], spatial: tuple[int, ...]) -> str:
        out = ["?"] * (max((*letters.values(), *spatial)) + 1)
        for letter, i in letters.items():
            out[i] = letter
        for n, i in enumerate(spatial):
            out[i] = str(n)
        return "".join(out)

    lhs = labels({"b": numbers.input_batch, "f": numbers.input_feature}, numbers.input_spatial)
    rhs = labels({"i": numbers.kernel_input_feature, "o": numbers.kernel_output_feature}, numbers.kernel_spatial)
    out = labels({"b": numbers.output_batch, "f": numbers.output_feature}, numbers.output_spatial)
    return f"{lhs}_{rhs}->{out}"


def _shapes(value: tuple[Shape, ...], options: PrintOptions) -> str:
    return "{" + ", ".join(_shape(s, options) for s in value) + "}"


def _verbatim(value: Any, _: Any = None) -> str:
    return str(value)


_WRITERS: dict[str, Callable[[Any, PrintOptions], str]] = {
    **dict.fromkeys({a.kind for o in HloOpcode for a in o.attributes}, _verbatim),
    "bool": lambda value, _: "true" if value else "false",
    "float": lambda value, _: float_text(value, PrimitiveType.F32),
    "string": _string,
    "ints": _ints,
    "int_lists": _int_lists,
    "computation": _computation,
    "computations": _computations,
    "window": window_text,
    "padding": padding_text,
    "slices": slices_text,
    "dim_labels": dim_labels_text,
    "shape": _shape,
    "shapes": _shapes,
    "literal": lambda value, _: typed_literal_text(value),
    "precisions": lambda value, _: "{" + ",".join(value) + "}",
}
"""Functions that print a value of each kind of attribute; canonical text needs none."""
