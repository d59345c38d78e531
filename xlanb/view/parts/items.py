"""Items: one instruction or node as plain data, made once per record and shared by all panes.

The keys are short because there are many: `n` name, `o` opcode or op, `s` shape without layout, `l`
layout, `f` colour family, `t` text line, `v` a constant's value or a parameter's number, `m` TF
node, `y` TF op, `w` Python line, `k` frame of the Python stack in the payload's `frames`, `p`
operands, `c` called computations, `r` root, `g` cluster, `x` reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from xlanb.graph.records import NodeRecord
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.python_lines import place_text
from xlanb.hlo.records import InstructionRecord
from xlanb.hlo.text.literal_text import literal_text
from xlanb.shape import ArrayShape, Literal
from xlanb.view.parts.families import VARIABLE_OPS, hlo_family, tf_family

Item = dict[str, Any]


_OF_AN_OP = re.compile(r"\w+\([^)]*\)(/|$)")  # jit(f)/mul
_FUSION_NAME = re.compile(r"(?!(?:loop|input|output)_fusion)(\w+?)(_fusion[.\w]*)$")  # multiply_add_fusion.3

MAX_LINE = 2000  # characters of one line of text
_SHAPE = 26  # characters of a shape in a node
_VALUE = 24  # characters of a value: a constant that has more is known by its shape


def clip(text: str, limit: int = MAX_LINE) -> str:
    """Text cut to a length, with a note of how much is left out."""
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text) - limit:,} more characters)"


def instruction_item(i: InstructionRecord) -> Item:
    """An HLO instruction as plain data."""
    item: Item = {
        "n": i.name,
        "o": i.opcode.text,
        "s": i.shape.text(layout=False),
        "f": hlo_family(i.opcode),
        "t": clip(_line(i)),
    }
    if len(item["s"]) > 400:
        item["s"] = clip(item["s"], 400)
    layout = (
        str(i.shape.layout)
        if isinstance(i.shape, ArrayShape) and i.shape.layout is not None and i.shape.dimensions
        else ""
    )
    meta = i.metadata
    where = place_text(*meta.python_line)
    optional = {
        "l": layout,
        "v": _value(i),
        "m": meta.op_name,
        "y": meta.op_type,
        "w": where,
        "p": list(i.operands),
        "c": list(i.called_computations),
        "r": int(i.is_root),
        "sh": i.sharding,
        "cp": list(i.control_predecessors),
    }
    item.update({k: v for k, v in optional.items() if v})
    if argument_name(item):
        item["an"] = 1
    return item


def _line(i: InstructionRecord) -> str:
    return f"  ROOT {i.text}" if i.is_root else f"  {i.text}"


def _value(i: InstructionRecord) -> str:
    if i.opcode is HloOpcode.CONSTANT:
        literal = i.attributes.get("literal")
        text = literal_text(literal).replace(" ", "") if isinstance(literal, Literal) else str(literal or "")
        return _value_or_shape(text, i.shape.text(layout=False))
    if i.opcode is HloOpcode.PARAMETER:
        return str(i.attributes.get("parameter_number", ""))
    if i.opcode is HloOpcode.FUSION:
        return str(i.attributes.get("kind", ""))
    if i.opcode is HloOpcode.COMPARE:
        return str(i.attributes.get("direction", ""))
    if i.opcode is HloOpcode.GET_TUPLE_ELEMENT:
        return str(i.attributes.get("index", ""))
    if i.opcode is HloOpcode.CUSTOM_CALL:
        return clip(str(i.attributes.get("custom_call_target", "")), 40)
    return ""


def _value_or_shape(value: str, shape: str) -> str:
    """Return a value if it is short and complete, else its shape."""
    is_whole = len(value) <= _VALUE and "..." not in value
    return value if is_whole or not shape else _short(shape, _VALUE)


def node_item(n: NodeRecord) -> Item:
    """A node of a TensorFlow graph as plain data."""
    item: Item = {
        "n": n.name,
        "o": n.op,
        "s": clip(", ".join(n.outputs), 400),
        "f": tf_family(n.op),
        "t": clip(node_text(n)),
    }
    where = place_text(n.source_file, n.source_line)
    data = [operand_name(x) for x in n.inputs if not x.startswith("^")]
    control = [x[1:] for x in n.inputs if x.startswith("^")]
    value = _value_or_shape(n.attributes.get("value", ""), ", ".join(n.outputs)) if n.op == "Const" else ""
    if n.op in VARIABLE_OPS:  # what reads it names it so
        value = n.name.rsplit("/", 1)[-1]
    optional = {
        "w": where,
        "p": data,
        "cp": control,
        "g": n.cluster,
        "x": n.reason,
        "d": n.device,
        "v": value,
    }
    item.update({k: v for k, v in optional.items() if v})
    return item


def operand_name(reference: str) -> str:
    """The node of a GraphDef input: "a" of "a:1" and of "^a"."""
    return reference.removeprefix("^").split(":", 1)[0]


def node_text(n: NodeRecord) -> str:
    """A node as one line: `loss = Mean(sq, axes) : f32[]  {keep_dims=false}`."""
    attributes = ", ".join(f"{k}={clip(str(v), 80)}" for k, v in n.attributes.items() if not k.startswith("_"))
    text = f"  {n.name} = {n.op}({', '.join(n.inputs)})"
    if n.outputs:
        text += f" : {', '.join(n.outputs)}"
    if attributes:
        text += f"  {{{attributes}}}"
    if n.cluster:
        text += f"  [{n.cluster}]"
    return text


def argument_name(item: Mapping[str, Any]) -> str:
    """Return a parameter's name in JAX, as in `params['w']`, which HLO names `params__w__.1`, or
    "".
    """
    name: str = item.get("m", "")
    is_argument = item["o"] == "parameter" and not item.get("y") and not _OF_AN_OP.match(name)
    return name if is_argument else ""


def label(item: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return a node's label: its title, the muted rest of the title, and the line below."""
    op, name, value = item["o"], item["n"], item.get("v", "")
    if "p" not in item and op == "constant" and value:
        return value, "", f"constant {item['s']}"
    if op == "parameter":
        argument = argument_name(item)
        words = f"{argument or name} {item['s']}"
        return "parameter", f" {value}", _short(words, 34 if argument else 26)
    if op == "fusion":
        made_of = _FUSION_NAME.match(name)
        return (made_of[1], made_of[2], _shape(item)) if made_of else ("fusion", f" {value}", _shape(item))
    if op == "call" and item.get("c"):
        return _short(_in_words(item["c"][0]), 24), " call", _shape(item)
    if item["f"].startswith("tf"):
        inmost = "/".join(name.split("/")[-2:])  # the layer and the op in it
        return op, f" {value}" if value else "", _short(inmost if name != op else item["s"], 24)
    rest = name[len(op) :] if name.startswith(op) else f" {name}"
    if value:
        rest = f" {value}"
    return op, _short(rest, 16), _shape(item)


def _shape(item: Mapping[str, Any]) -> str:
    """Return a shape that fits a node, without the note on omissions."""
    text: str = item["s"]
    return _short(text.partition(" ... (")[0], _SHAPE)


def _in_words(computation: str) -> str:
    """Return a function's name without the compiler's additions: `_where` of `jit__where_.4`."""
    return re.sub(r"(?:_?\.\d+)+$", "", computation).removeprefix("jit_").strip("_") or computation


def _short(text: str, limit: int) -> str:
    """Shorten a text in its middle if it is too long for a node."""
    if len(text) <= limit:
        return text
    head = limit // 2 - 1
    return f"{text[:head]}…{text[-(limit - head - 1) :]}"
