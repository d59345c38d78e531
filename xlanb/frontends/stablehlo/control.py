"""Loops, branches, calls, custom calls, and operations that order effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlanb.errors import HloVerifierError
from xlanb.frontends.stablehlo.elements import Elements
from xlanb.frontends.stablehlo.ir import (
    Block,
    FunctionType,
    Opaque,
    StablehloOperation,
    StablehloValue,
    Symbol,
    TensorType,
)
from xlanb.frontends.stablehlo.scope import Instructions, RegionScope, rule
from xlanb.frontends.stablehlo.shapes import fits, tuple_or_single
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_sharding import parse_sharding
from xlanb.shape import PrimitiveType, Shape
from xlanb.shape.shape import ArrayShape, TupleShape, array, tuple_of
from xlanb.wording import counted

_O = HloOpcode
_CONTEXT = array(PrimitiveType.U32)
"""The attributes of a send and a recv."""
_MAX_CALL_DEPTH = 60
_MAX_SPECIALIZATIONS = 10_000


def free_values(s: RegionScope, block: Block) -> dict[StablehloValue, None]:
    """The values from around a region that it uses, in the order of their first use."""
    known = s.program.free_values.get(id(block))
    if known is not None:
        return known
    found: dict[StablehloValue, None] = {}
    defined = set(block.arguments)
    for op in block.operations:
        inner = [v for region in op.regions for v in free_values(s, region)]
        found.update(dict.fromkeys(v for v in (*op.operands, *inner) if v not in defined))
        defined.update(op.results)
    s.program.free_values[id(block)] = found
    return found


def captured(s: RegionScope, blocks: Sequence[Block]) -> list[StablehloValue]:
    """Return the outer values that regions use, except constants, which are copied into them."""
    every = dict.fromkeys(v for block in blocks for v in free_values(s, block))
    return [v for v in every if not s.is_constant(v)]


@rule("stablehlo.while")
def _while(s: RegionScope, op: StablehloOperation) -> Instructions:
    """Lower a while loop.

    The state is a tuple of the operands, then the outer values that the regions use.
    """
    blocks = [s.block(op, 0), s.block(op, 1)]
    extra = captured(s, blocks)
    state = [*s.operands(op), *(s.value(v) for v in extra)]
    shapes = [i.shape for i in state]
    body = _loop_region(s, op, blocks[1], shapes, extra, keeps=True)
    condition = _loop_region(s, op, blocks[0], shapes, extra, keeps=False)
    made = s.b.while_(condition, body, s.packed(state))
    if len(state) == 1:
        return [made] if op.results else []
    return [s.b.get_tuple_element(made, n) for n in range(len(op.results))]


def _loop_region(
    s: RegionScope,
    op: StablehloOperation,
    block: Block,
    shapes: Sequence[Shape],
    extra: Sequence[StablehloValue],
    *,
    keeps: bool,
) -> HloComputation:
    """Lower the condition or, with `keeps`, the body of a loop."""
    inner = s.inner("region")
    values = [*block.arguments, *extra]
    if len(values) != len(shapes):
        s.fail(op, f"its regions have {len(block.arguments)} arguments, expected {len(shapes) - len(extra)}")
    for value, shape in zip(block.arguments, shapes, strict=False):
        if not fits(shape, value.type):
            s.fail(op, f"its region takes {value} of type {value.type}, not {shape.text(layout=False)}")
    parts = _parameter(inner, shapes)
    for value, part in zip(values, parts, strict=True):
        inner.bind(value, part)
    results = inner.lower_block(block)
    if keeps:
        results += parts[len(block.arguments) :]
    elif len(results) != 1:
        s.fail(op, f"its condition returns {len(results)} values, expected one")
    return inner.b.build_computation(inner.packed(results) if keeps else results[0])


def _parameter(inner: RegionScope, shapes: Sequence[Shape]) -> list[HloInstruction]:
    """One parameter for values of these shapes: a tuple, unless there is one alone."""
    if len(shapes) == 1:
        return [inner.b.parameter(0, shapes[0], "Arg_0")]
    whole = inner.b.parameter(0, tuple_of(shapes), "arg_tuple" if shapes else "arg_empty_tuple")
    return [inner.b.get_tuple_element(whole, n) for n in range(len(shapes))]


@rule("stablehlo.if", "stablehlo.case")
def _conditional(s: RegionScope, op: StablehloOperation) -> Instructions:
    (selector,) = s.operands(op, 1)
    if not op.regions or any(r.arguments for r in op.regions):
        s.fail(op, "expected branches without arguments")
    branches, operands = [], []
    for block in op.regions:
        extra = captured(s, [block])
        given = [s.value(v) for v in extra]
        inner = s.inner("region")
        for value, part in zip(extra, _parameter(inner, [i.shape for i in given]), strict=True):
            inner.bind(value, part)
        branches.append(inner.b.build_computation(inner.packed(inner.lower_block(block))))
        operands.append(s.packed(given))
    return s.unpacked(s.b.conditional(selector, branches, operands), op)


@rule("func.call", "stablehlo.call")
def _call(s: RegionScope, op: StablehloOperation) -> Instructions:
    made = s.b.call(function(s, op, "callee", s.operands(op)), s.operands(op))
    return s.unpacked(made, op)


def function(s: RegionScope, op: StablehloOperation, attribute: str, arguments: Instructions) -> HloComputation:
    """Return the computation of the function that an attribute names, for arguments of these
    shapes.

    A function whose types have open sizes is lowered again for other constants: sizes may depend on
    them.
    """
    symbol = op.attributes.get(attribute)
    program = s.program
    name = symbol.name if isinstance(symbol, Symbol) else str(symbol)
    callee = program.functions.get(name)
    if callee is None or not callee.regions:
        s.fail(op, f"no function @{name} with a body")
    block = callee.regions[0]
    if len(arguments) != len(block.arguments):
        s.fail(op, f"@{name} takes {counted(len(block.arguments), 'argument')}, not {len(arguments)}")
    constants: list[Any] = [None] * len(arguments)
    if _is_open(callee):
        constants = [s.constant_of(a) if a.shape.is_array else None for a in arguments]
    key = (name, *(a.shape for a in arguments), *(None if c is None else c.tobytes() for c in constants))
    made = program.called.get(key)
    if made is None:
        if name in program.being_lowered or len(program.being_lowered) > _MAX_CALL_DEPTH:
            s.refuse(op, f"@{name} calls itself, or calls nest more than {_MAX_CALL_DEPTH} deep")
        if len(program.called) > _MAX_SPECIALIZATIONS:
            s.refuse(op, f"more than {_MAX_SPECIALIZATIONS} functions for different sizes")
        program.being_lowered.append(name)
        made = program.called[key] = _made_function(s, callee, name, arguments, constants)
        program.being_lowered.pop()
    return made


def _is_open(callee: StablehloOperation) -> bool:
    """Whether the types of a function leave a size open."""
    type_ = callee.attributes.get("function_type")
    if not isinstance(type_, FunctionType):
        return False
    return any(isinstance(t, TensorType) and not t.is_static for t in (*type_.inputs, *type_.results))


def _made_function(
    s: RegionScope, callee: StablehloOperation, name: str, arguments: Instructions, constants: Sequence[Any]
) -> HloComputation:
    scope = RegionScope(s.program, s.program.builder.sub_computation(name.rpartition("::")[2]))
    block = callee.regions[0]
    for n, (value, argument, known) in enumerate(zip(block.arguments, arguments, constants, strict=True)):
        if not fits(argument.shape, value.type):
            s.program.fail(
                HloVerifierError, callee, f"@{name} takes {value.type}, not {argument.shape.text(layout=False)}"
            )
        made = scope.parameter(n, argument.shape, value)
        scope.bind(value, made if known is None else scope.b.constant(known))
    results = scope.lower_block(block)
    type_ = callee.attributes.get("function_type")
    if isinstance(type_, FunctionType) and len(type_.results) != len(results):
        s.program.fail(HloVerifierError, callee, f"@{name} returns {len(results)} values, not {len(type_.results)}")
    return scope.b.build_computation(scope.packed(results))


@rule("stablehlo.composite")
def _composite(s: RegionScope, op: StablehloOperation) -> Instructions:
    """A call of the function with the decomposition; its name and attributes are kept."""
    operands = s.operands(op)
    made = s.instruction(
        _O.CALL,
        operands,
        function(s, op, "decomposition", operands).root.shape,
        to_apply=function(s, op, "decomposition", operands),
        is_composite=True,
    )
    attributes = op.attributes.get("composite_attributes", Opaque("{}"))
    made.frontend_attributes = (
        ("composite.attributes", attributes.text if isinstance(attributes, Opaque) else "{}"),
        ("composite.name", s.word(op, "name")),
        ("composite.version", str(op.attributes.get("version", 0))),
    )
    return s.unpacked(made, op)


@rule("stablehlo.optimization_barrier")
def _optimization_barrier(s: RegionScope, op: StablehloOperation) -> Instructions:
    if not op.operands:
        return []
    return s.unpacked(s.instruction(_O.OPT_BARRIER, (s.packed(s.operands(op)),)), op)


_TYPED_FFI = 4
_API = {
    1: None,
    2: "API_VERSION_STATUS_RETURNING",
    3: "API_VERSION_STATUS_RETURNING_UNIFIED",
    _TYPED_FFI: "API_VERSION_TYPED_FFI",
}


@rule("stablehlo.custom_call")
def _custom_call(s: RegionScope, op: StablehloOperation) -> Instructions:
    operands = s.operands(op)
    target = s.word(op, "call_target_name")
    special = _TARGETS.get(target)
    if special is not None:
        return special(s, op)
    typed = op.attributes.get("mhlo.backend_config")
    version = op.attributes.get("api_version", 1) if typed is None else _TYPED_FFI
    layouts = op.attributes.get("operand_layouts")
    shape = tuple_or_single([s.shape(op, r.type) for r in op.results])
    results = op.attributes.get("result_layouts")
    made = s.b.custom_call(
        target,
        operands,
        _laid_out(s, op, shape, results) if results else shape,
        operand_layout_constraints=_constraints(s, op, operands, layouts) if layouts is not None else None,
        custom_call_has_side_effect=s.flag(op, "has_side_effect") or None,
        api_version=_API.get(version if isinstance(version, int) else 1),
        output_to_operand_aliasing=_aliasing(op),
        called_computations=_called(s, op),
    )
    config = op.attributes.get("backend_config", "") if typed is None else typed
    made.backend_config = config.text if isinstance(config, Opaque) else str(config)
    sharding = op.attributes.get("mhlo.sharding")
    if isinstance(sharding, str) and sharding.startswith("{"):
        made.sharding = parse_sharding(Cursor(sharding))
    return s.unpacked(made, op)


_TARGETS: dict[str, Callable[[RegionScope, StablehloOperation], Instructions]] = {}
"""Custom calls that represent HLO operations."""

Target = Callable[[RegionScope, StablehloOperation], Instructions]


def target(*names: str) -> Callable[[Target], Target]:
    """Register the lowering of custom calls with these targets."""

    def register(made: Target) -> Target:
        for name in names:
            _TARGETS[name] = made
        return made

    return register


def _order(s: RegionScope, op: StablehloOperation, layout: Any, shape: Shape) -> Shape:
    if not isinstance(layout, Elements) or not isinstance(shape, ArrayShape) or layout.full().size != shape.rank:
        s.fail(op, f"the layout does not match {shape.text(layout=False)}")
    return shape.with_layout([int(d) for d in layout.full().reshape(-1)])


def _constraints(s: RegionScope, op: StablehloOperation, operands: Instructions, layouts: Any) -> tuple[Shape, ...]:
    if not isinstance(layouts, tuple) or len(layouts) != len(operands):
        s.fail(op, f"expected {len(operands)} operand_layouts")
    return tuple(
        _order(s, op, layout, i.shape) if i.shape.is_array else i.shape
        for layout, i in zip(layouts, operands, strict=True)
    )


def _laid_out(s: RegionScope, op: StablehloOperation, shape: Shape, layouts: Any) -> Shape:
    if not isinstance(shape, TupleShape):
        return _order(s, op, layouts[0], shape)
    if not isinstance(layouts, tuple) or len(layouts) != len(shape.shapes):
        s.fail(op, f"expected {len(shape.shapes)} result_layouts")
    parts = [_order(s, op, y, x) if x.is_array else x for x, y in zip(shape.shapes, layouts, strict=True)]
    return tuple_of(parts)


def _aliasing(op: StablehloOperation) -> str | None:
    """Return XLA's text of `output_operand_aliases`: which result shares which operand's memory."""
    value = op.attributes.get("output_operand_aliases")
    if not isinstance(value, tuple) or not value:
        return None
    parts = []
    for alias in value:
        output, operand = (_index(alias.get(n, ())) for n in ("output_tuple_indices", "operand_tuple_indices"))
        parts.append(f"{output}: ({alias.get('operand_index', 0)}, {operand})")
    return "{" + ", ".join(parts) + "}"


def _index(numbers: Sequence[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _called(s: RegionScope, op: StablehloOperation) -> tuple[HloComputation, ...] | None:
    value = op.attributes.get("called_computations")
    if not isinstance(value, tuple) or not value:
        return None
    holder = StablehloOperation(op.name, op.operands, {}, [], [], op.offset)
    found = []
    for symbol in value:
        holder.attributes["callee"] = symbol
        found.append(function(s, holder, "callee", s.operands(op)))
    return tuple(found)


# -- effects ---------------------------------------------------------------------------------------


@rule("stablehlo.after_all", "stablehlo.create_token")
def _after_all(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    return s.b.after_all(s.operands(op))


@rule("stablehlo.async_start")
def _async_start(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    operands = s.operands(op)
    called = s.region(op, 0, [x.shape for x in operands])
    state = tuple_of([tuple_of([x.shape for x in operands]), called.root.shape, _CONTEXT])
    return s.instruction(_O.ASYNC_START, operands, state, calls=called)


@rule("stablehlo.async_done")
def _async_done(s: RegionScope, op: StablehloOperation) -> Instructions:
    (state,) = s.operands(op, 1)
    parts = state.shape.shapes if isinstance(state.shape, TupleShape) else ()
    if len(parts) < 2:
        s.fail(op, f"expected the result of an async_start, got {state.shape.text(layout=False)}")
    return s.unpacked(s.instruction(_O.ASYNC_DONE, (state,), parts[1]), op)


@rule("stablehlo.infeed")
def _infeed(s: RegionScope, op: StablehloOperation) -> Instructions:
    """Lower an infeed: data are always a tuple, followed by the token."""
    (token,) = s.operands(op, 1)
    data = tuple_of([s.shape(op, r.type) for r in op.results[:-1]]).with_default_layout()
    whole = tuple_of([data, token.shape])
    made = s.instruction(_O.INFEED, (token,), whole, infeed_config=s.word(op, "infeed_config", "") or None)
    arrays = s.b.get_tuple_element(made, 0)
    parts = [s.b.get_tuple_element(arrays, n) for n in range(len(op.results) - 1)]
    return [*parts, s.b.get_tuple_element(made, 1)]


@rule("stablehlo.outfeed")
def _outfeed(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    *data, token = s.operands(op, at_least=1)
    whole = s.b.tuple(data)
    config = s.word(op, "outfeed_config", "") or None
    return s.instruction(_O.OUTFEED, (whole, token), token.shape, outfeed_shape=whole.shape, outfeed_config=config)


@rule("stablehlo.send")
def _send(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    *data, token = s.operands(op, at_least=1)
    given = s.packed(data)
    named = {"channel_id": s.channel(op), "is_host_transfer": s.flag(op, "is_host_transfer") or None}
    shape = tuple_of([given.shape, _CONTEXT, token.shape])
    sent = s.instruction(_O.SEND, (given, token), shape, **named)
    return s.instruction(_O.SEND_DONE, (sent,), token.shape, **named)


@rule("stablehlo.recv")
def _recv(s: RegionScope, op: StablehloOperation) -> Instructions:
    (token,) = s.operands(op, 1)
    data = tuple_or_single([s.shape(op, r.type).with_default_layout() for r in op.results[:-1]])
    named = {"channel_id": s.channel(op), "is_host_transfer": s.flag(op, "is_host_transfer") or None}
    begun = s.instruction(_O.RECV, (token,), tuple_of([data, _CONTEXT, token.shape]), **named)
    done = s.instruction(_O.RECV_DONE, (begun,), tuple_of([data, token.shape]), **named)
    first = s.b.get_tuple_element(done, 0)
    count = len(op.results) - 1
    parts = [first] if count == 1 else [s.b.get_tuple_element(first, n) for n in range(count)]
    return [*parts, s.b.get_tuple_element(done, 1)]
