"""Whether a node can be compiled: ordered conditions, with TensorFlow's texts for failures.

Source: compilability_check_util.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from xlanb.clustering.devices import CompilationDevice
from xlanb.clustering.node_graph import IDENTITY
from xlanb.clustering.resource_operation_safety_analysis import STACK, TENSOR_ARRAY, resource_kind
from xlanb.clustering.xla_kernels import missing_kernel
from xlanb.conditions import Condition, first_failing, objecting
from xlanb.graph.functions import FunctionRef
from xlanb.graph.operation import Operation
from xlanb.graph.ops.table import find_op
from xlanb.tf2xla.registry import kernel

# A placeholder is what becomes an argument when it is fed.
_ARGUMENTS = frozenset({"_Arg", "_Retval", "Placeholder", "PlaceholderV2"})
_RANDOM = frozenset(
    {"RandomUniform", "RandomShuffle", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "Multinomial"}
)
_INACCURATE = frozenset({"SelfAdjointEigV2", "Svd"})
_SLOW = _INACCURATE | {"Qr", "MatrixInverse", "MatrixSolve", "ResizeBilinearGrad"}
_CALLS = {"PartitionedCall": "f", "StatefulPartitionedCall": "f", "SymbolicGradient": "f"}
_WHILE, _IF, _CASE = ({name, f"Stateless{name}"} for name in ("While", "If", "Case"))
_DEEPEST = 50  # calls within calls


@dataclass(frozen=True)
class CallScope:
    """The context of a compilability check: the device's rules and the enclosing functions,
    innermost last.

    `allows_where` is False with --tf_xla_cluster_exclude_ops=Where; `only_lowered` excludes ops
    that xlanb cannot lower, for a graph that is to be run.
    """

    device: CompilationDevice
    allows_where: bool = True
    only_lowered: bool = False
    stack: tuple[str, ...] = ()
    calls: dict[str, str] = field(default_factory=dict)

    def within(self, function: str) -> CallScope:
        """The scope of the nodes of a function that is called here."""
        return CallScope(self.device, self.allows_where, self.only_lowered, (*self.stack, function), self.calls)


class Judged(NamedTuple):
    """A node, and the context of its check."""

    op: Operation
    scope: CallScope


def _condition(name: str, objection: Callable[[Operation, CallScope], str], change: str = "") -> Condition[Judged]:
    """Make a condition; `objection` returns TensorFlow's reason against a node, or "".

    `change` is the remedy's text before the node's name.
    """
    remedy = (lambda j: f"{change} `{j.op.name}`") if change else (lambda _: "")
    return objecting(name, lambda j: objection(j.op, j.scope), remedy=remedy)


def _unless(fails: Callable[[Operation, CallScope], bool], reason: str) -> Callable[[Operation, CallScope], str]:
    return lambda op, scope: reason if fails(op, scope) else ""


def _unless_everything(fails: Callable[[Operation], bool], reason: str) -> Callable[[Operation, CallScope], str]:
    """Object only on devices that do not compile everything."""
    return lambda op, scope: reason if not scope.device.compiles_everything and fails(op) else ""


def is_function_call(op: Operation) -> bool:
    """Whether the node is the call of a function of the library."""
    return op.type in _CALLS or op.type in op.graph.functions


def _kernel(op: Operation, scope: CallScope) -> str:
    if is_function_call(op):
        name = _called(op, _CALLS[op.type])[0] if op.type in _CALLS else op.type
        return "unsupported function" if _against_call(name, op, scope) else ""
    if op.type == "Const" and getattr(op.attrs.get("dtype"), "name", "") == "string":
        return "Const op with type DT_STRING is not supported by XLA."
    if op.type in IDENTITY and any(t.dtype.is_ref_dtype for t in op.inputs):
        return "Identity with unsafe cast."
    return missing_kernel(op, scope.device.jit_device)


def _called(op: Operation, *attributes: str) -> list[str]:
    values = [op.attrs.get(a) for a in attributes]
    refs = [r for v in values for r in (v if isinstance(v, tuple | list) else (v,))]
    return [r.name if isinstance(r, FunctionRef) else "" for r in refs]


def _branches(types: set[str], *attributes: str) -> Callable[[Operation, CallScope], str]:
    def objection(op: Operation, scope: CallScope) -> str:
        if op.type not in types:
            return ""
        bad = any(_against_call(name, op, scope) for name in _called(op, *attributes))
        return f"unsupported {op.type.removeprefix('Stateless').lower()}" if bad else ""

    return objection


def _against_call(name: str, op: Operation, scope: CallScope) -> str:
    """Return the first reason why a function's body cannot be compiled, with the node."""
    function = op.graph.functions.get(name)
    if function is None:
        return f"could not instantiate call: '{name}'"
    if len(scope.stack) >= _DEEPEST or name in scope.stack:
        return "function depth limit exceeded"
    inner = scope.within(name)
    if name not in scope.calls:
        found = ((node, detailed(node, inner, reason_against(node, inner))) for node in function.body)
        scope.calls[name] = next((f"{n.name} (op {n.type}) of {name}: {reason}" for n, reason in found if reason), "")
    return scope.calls[name]


def _holds_variants(op: Operation) -> bool:
    # Outputs of unknown ops are read as variants, which does not count against their users.
    inputs = (t for t in op.inputs if find_op(t.op.type) is not None or t.op.type in op.graph.functions)
    return any(t.dtype.name == "variant" for t in (*inputs, *op.outputs))


def _lowered(op: Operation, scope: CallScope) -> str:
    if not scope.only_lowered or is_function_call(op):
        return ""
    found = kernel(op.type)
    known = (found is not None and found.is_compilable) or op.type in ("_Arg", "_Retval")
    return "" if known else f"xlanb has no lowering for {op.type}"


CONDITIONS: tuple[Condition[Judged], ...] = (
    _condition(
        "is not an argument or result",
        _unless(lambda op, s: not s.stack and op.type in _ARGUMENTS, "top level _Arg or _Retval"),
    ),
    _condition(
        "does not use a scoped allocator",
        _unless(
            lambda op, _: "_scoped_allocator" in op.attrs or "_forward_from" in op.attrs,
            "_scoped_allocator or _forward_from attribute",
        ),
    ),
    _condition("has a kernel, or calls a compilable function", _kernel, "use other ops instead of"),
    _condition("its loop is compilable", _branches(_WHILE, "cond", "body")),
    _condition("its branches are compilable", _branches(_IF, "then_branch", "else_branch")),
    _condition("all its cases are compilable", _branches(_CASE, "branches")),
    _condition("is not a stateful random op", _unless_everything(lambda op: op.type in _RANDOM, "stateful random op")),
    _condition(
        "is not a control trigger",
        _unless_everything(lambda op: op.type == "ControlTrigger", "not allowed control trigger"),
    ),
    _condition(
        "is not an assertion",
        _unless_everything(lambda op: op.type in ("Assert", "CheckNumerics"), "Assert or CheckNumerics"),
    ),
    _condition("is not a collective", _unless(lambda op, _: op.type == "CollectiveReduceV2", "Collective op")),
    _condition(
        "is not Where",
        _unless(lambda op, s: op.type == "Where" and not s.allows_where, "Where op"),
        "remove Where from --tf_xla_cluster_exclude_ops for",
    ),
    _condition("is not Unique", _unless(lambda op, _: op.type == "Unique", "Unique op")),
    _condition(
        "has no variants",
        _unless_everything(_holds_variants, "DT_VARIANT producer/consumer"),
    ),
    _condition("is not a stack op", _unless_everything(lambda op: resource_kind(op.type) == STACK, "Stack op")),
    _condition(
        "is not a TensorArray op",
        _unless_everything(lambda op: resource_kind(op.type) == TENSOR_ARRAY, "TensorArray op"),
    ),
    _condition(
        "does not use a resource variable within a called function",
        lambda op, s: (
            "resource variable op in called function"
            if s.stack and not s.device.compiles_everything and any(t.dtype.name == "resource" for t in op.inputs)
            else ""
        ),
    ),
    _condition(
        "is accurate enough",
        _unless_everything(lambda op: op.type in _INACCURATE, "operation with numerical accuracy issues"),
    ),
    _condition("is fast enough", _unless_everything(lambda op: op.type in _SLOW, "slow operation")),
    _condition("xlanb has a lowering", _lowered),
)


def reason_against(op: Operation, scope: CallScope) -> str:
    """The first reason why the node cannot be compiled, "" if it can."""
    judged = Judged(op, scope)
    failed = first_failing(CONDITIONS, judged)
    return "" if failed is None else CONDITIONS[failed].value(judged)


def detailed(op: Operation, scope: CallScope, reason: str) -> str:
    """Extend the reason for a call by the node at fault inside the called function."""
    if not reason.startswith("unsupported "):
        return reason
    names = _called(op, _CALLS[op.type]) if op.type in _CALLS else [op.type] if op.type in op.graph.functions else []
    for types, attributes in (
        (_WHILE, ("cond", "body")),
        (_IF, ("then_branch", "else_branch")),
        (_CASE, ("branches",)),
    ):
        names += _called(op, *attributes) if op.type in types else []
    within = next((found for n in names if (found := _against_call(n, op, scope))), "")
    return f"{reason}: {within}" if within else reason
