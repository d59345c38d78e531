"""The short forms of operations of StableHLO, CHLO and func, one row each.

A form is a list of items: `%` comma-separated operands; `name=attribute` a word, `=` and the value
of an attribute; `!attribute` a bare word; the rest are names of functions here. Every form is
followed by attributes in braces and the types.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xlanb.frontends.stablehlo import shardy_text
from xlanb.frontends.stablehlo.elements import Elements
from xlanb.frontends.stablehlo.ir import (
    Block,
    FunctionType,
    StablehloOperation,
    StablehloType,
    StablehloValue,
    TensorType,
)

if TYPE_CHECKING:
    from xlanb.frontends.stablehlo.parser import Parser

FORMS = {
    "stablehlo.iota": "dim=iota_dimension",
    "stablehlo.dynamic_iota": "% dim=iota_dimension",
    "stablehlo.compare": "!comparison_direction % !compare_type",
    "chlo.broadcast_compare": "% ",
    "stablehlo.get_tuple_element": "% index",
    "stablehlo.slice": "% slices",
    "stablehlo.dynamic_slice": "% sizes=slice_sizes",
    "stablehlo.broadcast": "% sizes=broadcast_sizes",
    "stablehlo.broadcast_in_dim": "% dims=broadcast_dimensions",
    "stablehlo.dynamic_broadcast_in_dim": "% dims=broadcast_dimensions",
    "stablehlo.cholesky": "% lower=lower",
    "stablehlo.concatenate": "% dim=dimension",
    "stablehlo.convolution": "parentheses convolution",
    "stablehlo.dynamic_conv": "parentheses convolution",
    "stablehlo.custom_call": "target parentheses",
    "stablehlo.composite": "composite %",
    "stablehlo.dot": "% precision=precision_config",
    "stablehlo.dot_general": "% batching_dims=batching_dims contracting_dims=contracting_dims "
    "precision=precision_config algorithm=algorithm",
    "stablehlo.einsum": "% config=einsum_config",
    "stablehlo.unary_einsum": "% config=einsum_config",
    "stablehlo.fft": "% type=fft_type length=fft_length",
    "stablehlo.get_dimension_size": "% dim=dimension",
    "stablehlo.set_dimension_size": "% dim=dimension",
    "stablehlo.reverse": "% dims=dimensions",
    "stablehlo.pad": "% low=edge_padding_low high=edge_padding_high interior=interior_padding",
    "stablehlo.transpose": "% dims=permutation",
    "stablehlo.optimization_barrier": "barrier",
    "stablehlo.rng": "% distribution=rng_distribution",
    "stablehlo.rng_bit_generator": "% algorithm=rng_algorithm",
    "stablehlo.reduce_precision": "% format",
    "chlo.top_k": "top_k",
    "func.call": "callee parentheses",
}
"""Forms other than operands alone."""

_PAIRED = frozenset({"batching_dims", "contracting_dims"})
_EACH = frozenset({"stablehlo.optimization_barrier"})
"""Their results have the types of their operands, one each."""
_NONE = frozenset({"func.return", "stablehlo.return", "sdy.return"})
_FORMAT = re.compile(r"e([0-9]{1,4})m([0-9]{1,4})(?![\w$.])[ \t\n\r]*")
_WINDOW = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}


class Reading:
    """The operands and attributes of an operation while it is read."""

    def __init__(self, parser: Parser, name: str, at: int) -> None:
        self.parser = parser
        self.cursor = parser.cursor
        self.name = name
        self.at = at
        self.operands: list[StablehloValue] = []
        self.attributes: dict[str, Any] = {}


def parse(parser: Parser, name: str, at: int) -> StablehloOperation:
    """An operation in its short form, from behind its name on."""
    c = parser.cursor
    if "." not in name:
        c.fail(f"unknown operation '{name}'", at)
    if c.at("(") and name == "stablehlo.constant":
        return _generic_constant(parser, name, at)
    whole = _WHOLE.get(name)
    if whole is not None:
        return whole(parser, name, at)
    reading = Reading(parser, name, at)
    for item in FORMS.get(name, "%").split():
        _read(reading, item)
    if c.at("{"):
        reading.attributes |= parser.attributes.dictionary()
    return parser.made(name, at, reading.operands, reading.attributes, _results(reading))


def _read(reading: Reading, item: str) -> None:
    c = reading.cursor
    if item == "%":
        reading.operands += reading.parser.operands()
        return
    word, equals, attribute = item.partition("=")
    if equals:
        _keyword(reading, word, attribute)
    elif item.startswith("!"):
        if c.peek_bare():
            reading.attributes[item[1:]] = c.bare()
            c.accept(",")
    else:
        _ITEMS[item](reading)


def _keyword(reading: Reading, word: str, attribute: str) -> None:
    """Parse an optional `word = value`, with commas around it."""
    c = reading.cursor
    c.accept(",")
    if not c.accept_bare(word):
        return
    c.expect("=", f"behind '{word}'")
    parser = reading.parser
    if word in _PAIRED:
        left = parser.attributes.array()
        c.expect("x", "between the dimensions of both operands")
        reading.attributes[attribute] = (left, parser.attributes.array())
    elif c.at("<"):
        reading.attributes[attribute] = parser.attributes.fields_in_brackets()
    elif c.at_integer():  # it has no type: the colon begins the operation's types
        reading.attributes[attribute] = c.whole_number()
    elif c.at('"'):
        reading.attributes[attribute] = c.quoted()
    else:
        reading.attributes[attribute] = parser.attributes.attribute()


def _results(reading: Reading) -> tuple[StablehloType, ...]:
    """Return the result types, from those after the colon: a function type's, or by the form."""
    parser, c = reading.parser, reading.cursor
    if not c.accept(":"):
        if reading.operands and reading.name not in _NONE:
            c.fail("expects ':' and the types of the operation")
        return ()
    start = c.pos
    types = [parser.types.type()]
    if isinstance(types[0], FunctionType):
        parser.check_operands(reading.operands, types[0].inputs, start)
        return types[0].results
    while c.accept(","):
        types.append(parser.types.type())
    if c.accept("->"):
        return parser.types.types()
    if reading.name in _NONE:
        parser.check_operands(reading.operands, types, start)
        return ()
    return tuple(types) if reading.name in _EACH else (types[-1],)


# -- items -----------------------------------------------------------------------------------------


def _parentheses(reading: Reading) -> None:
    reading.operands += reading.parser.operands_in_parentheses()


def _target(reading: Reading) -> None:
    reading.attributes["call_target_name"] = reading.cursor.suffix("@")


def _callee(reading: Reading) -> None:
    reading.attributes["callee"] = reading.parser.callee()


def _composite(reading: Reading) -> None:
    reading.attributes["name"] = reading.cursor.quoted()


def _index(reading: Reading) -> None:
    c = reading.cursor
    c.expect("[", "and the number of the element")
    reading.attributes["index"] = c.whole_number()
    c.expect("]")


def _slices(reading: Reading) -> None:
    """`[0:4:2, 1:3]`: start, limit and stride of each dimension."""
    c = reading.cursor
    starts, limits, strides = [], [], []
    c.expect("[", "and the ranges of a slice")
    while not c.at("]"):
        starts.append(c.whole_number())
        c.expect(":", "and the limit of a slice")
        limits.append(c.whole_number())
        strides.append(c.whole_number() if c.accept(":") else 1)
        if not c.accept(","):
            break
    c.expect("]", "after the ranges of a slice")
    reading.attributes |= {
        "start_indices": tuple(starts),
        "limit_indices": tuple(limits),
        "strides": tuple(strides),
    }


def _format(reading: Reading) -> None:
    c = reading.cursor
    c.accept(",")
    c.expect_bare("format")
    c.expect("=")
    found = _FORMAT.match(c.text, c.pos)
    if found is None:
        c.fail("expects a format such as e5m10")
    c.pos = found.end()
    reading.attributes |= {"exponent_bits": int(found[1]), "mantissa_bits": int(found[2])}


def _barrier(reading: Reading) -> None:
    c = reading.cursor
    if c.at("{"):
        reading.attributes |= reading.parser.attributes.dictionary()
    if c.at("%"):
        reading.operands += reading.parser.operands()
    else:
        c.expect("(")
        c.expect(")")


def _top_k(reading: Reading) -> None:
    c = reading.cursor
    c.expect("(")
    reading.operands += reading.parser.operands()
    _keyword(reading, "k", "k")
    _keyword(reading, "is_stable", "is_stable")
    c.expect(")")


def _convolution(reading: Reading) -> None:
    """`dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[0, 0]]}`."""
    c, parser = reading.cursor, reading.parser
    c.expect_bare("dim_numbers")
    c.expect("=")
    reading.attributes["dimension_numbers"] = parser.attributes.convolution_dimensions()
    c.expect(",", "and 'window'")
    c.expect_bare("window")
    c.expect("=")
    c.expect("{")
    while not c.at("}"):
        start = c.pos
        word = c.bare("a part of a window")
        if word not in _WINDOW:
            c.fail(f"expects {', '.join(_WINDOW)}, not '{word}'", start)
        c.expect("=")
        reading.attributes[_WINDOW[word]] = parser.attributes.array()
        if not c.accept(","):
            break
    c.expect("}", "at the end of a window")


_ITEMS: dict[str, Callable[[Reading], None]] = {
    "parentheses": _parentheses,
    "target": _target,
    "callee": _callee,
    "composite": _composite,
    "index": _index,
    "slices": _slices,
    "format": _format,
    "barrier": _barrier,
    "top_k": _top_k,
    "convolution": _convolution,
}


# -- whole operations ------------------------------------------------------------------------------


def _generic_constant(parser: Parser, name: str, at: int) -> StablehloOperation:
    c = parser.cursor
    c.expect("(")
    c.expect(")")
    attributes: dict[str, Any] = {}
    if c.accept("<"):
        attributes = parser.attributes.dictionary()
        c.expect(">", "at the end of the properties")
    if c.at("{"):
        attributes |= parser.attributes.dictionary()
    return parser.made(name, at, [], attributes, parser.function_type([]).results)


def _constant(parser: Parser, name: str, at: int) -> StablehloOperation:
    c = parser.cursor
    attributes = parser.attributes.dictionary() if c.at("{") else {}
    start = c.pos
    value = attributes["value"] = parser.attributes.attribute()
    if not isinstance(value, Elements):
        if name.startswith("arith."):
            c.fail("a scalar of the arith dialect: expects a tensor", start)
        c.fail("expects elements such as dense<0.0> : tensor<f32>", start)
    return parser.made(name, at, [], attributes, (value.type,))


def _while(parser: Parser, name: str, at: int) -> StablehloOperation:
    """`(%iterArg = %0, ...) : types cond { ... } do { ... }`."""
    c = parser.cursor
    c.expect("(")
    names, operands = [], []
    while not c.at(")"):
        names.append(parser.argument_name())
        c.expect("=", "and the initial value")
        operands.append(parser.operand())
        if not c.accept(","):
            break
    c.expect(")")
    types: list[StablehloType] = []
    if operands:
        c.expect(":", "and the types of a while")
        start = c.pos
        types.append(parser.types.type())
        while c.accept(","):
            types.append(parser.types.type())
        parser.check_operands(operands, types, start)
    attributes = parser.attributes.dictionary() if c.accept_bare("attributes") else {}
    regions = []
    for word in ("cond", "do"):
        c.expect_bare(word)
        regions.append(parser.region([(n, p, StablehloValue(n, t)) for (n, p), t in zip(names, types, strict=True)]))
    return parser.made(name, at, operands, attributes, types, regions)


def _reduce(parser: Parser, name: str, at: int) -> StablehloOperation:
    """`(%x init: %0), ... [applies stablehlo.add] across dimensions = [0] : types [reducer(...)
    {...}]`.
    """
    c = parser.cursor
    inputs: list[StablehloValue] = []
    inits: list[StablehloValue] = []
    while c.accept("("):
        inputs.append(parser.operand())
        c.expect_bare("init")
        c.expect(":")
        inits.append(parser.operand())
        c.expect(")")
        if not c.accept(","):
            break
    applied = c.bare("the operation that a reduce applies") if c.accept_bare("applies") else ""
    c.expect_bare("across")
    c.expect_bare("dimensions")
    c.expect("=")
    attributes: dict[str, Any] = {"dimensions": parser.attributes.array()}
    if c.at("{"):
        attributes |= parser.attributes.dictionary()
    operands = inputs + inits
    results = parser.function_type(operands).results
    location = parser.locations.optional()
    region = _applied(parser, applied, inputs, at) if applied else _reducer(parser)
    made = parser.made(name, at, operands, attributes, results, [region])
    made.location = location
    return made


def _applied(parser: Parser, applied: str, inputs: list[StablehloValue], at: int) -> Block:
    """Make the region over two scalars for `applies stablehlo.add`."""
    type_ = inputs[0].type if inputs else None
    if not isinstance(type_, TensorType) or len(inputs) != 1:
        parser.cursor.fail("expects one tensor to reduce where an operation is applied", at)
    scalar = TensorType((), type_.element, type_.element_text)
    left, right = StablehloValue("lhs", scalar), StablehloValue("rhs", scalar)
    inner = parser.made(applied, at, [left, right], {}, (scalar,))
    last = parser.made("stablehlo.return", at, list(inner.results), {}, ())
    return Block([left, right], [inner, last])


def _reducer(parser: Parser) -> Block:
    """`reducer(%a: t, %b: t) (%c: u, %d: u) { ... }`: the first of each pair come first."""
    c = parser.cursor
    c.expect_bare("reducer")
    firsts, seconds = [], []
    while c.accept("("):
        firsts.append(parser.typed_argument())
        c.expect(",", "and the second argument of a reducer")
        seconds.append(parser.typed_argument())
        c.expect(")")
    return parser.region([*firsts, *seconds])


def _scan(parser: Parser, name: str, at: int) -> StablehloOperation:
    """`(inputs) inits(inits) dimension=0 { ... } : types`."""
    c = parser.cursor
    inputs = parser.operands_in_parentheses()
    c.expect_bare("inits")
    inits = parser.operands_in_parentheses()
    c.expect_bare("dimension")
    c.expect("=")
    attributes: dict[str, Any] = {"dimension": c.whole_number()}
    if c.accept_bare("attributes"):
        attributes |= parser.attributes.dictionary()
    region = parser.region()
    operands = inputs + inits
    results = parser.function_type(operands).results
    attributes["operandSegmentSizes"] = (len(inputs), len(inits))
    attributes["resultSegmentSizes"] = (len(results) - len(inits), len(inits))
    return parser.made(name, at, operands, attributes, results, [region])


_WHOLE: dict[str, Callable[[Parser, str, int], StablehloOperation]] = {
    "stablehlo.constant": _constant,
    "chlo.constant": _constant,
    "arith.constant": _constant,
    "stablehlo.while": _while,
    "stablehlo.reduce": _reduce,
    "chlo.scan": _scan,
    **shardy_text.WHOLE,
}
