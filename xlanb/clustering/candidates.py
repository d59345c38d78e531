"""Find candidates for compilation: the first checks of mark_for_compilation_pass.cc, in order."""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.clustering.backwards_const_analysis import must_be_constant
from xlanb.clustering.compilability import CONDITIONS, CallScope, Judged, detailed
from xlanb.clustering.devices import ALWAYS, IF_ASKED, IF_ENABLED, compilation_device, device_of, device_type
from xlanb.clustering.node_graph import CONSTANT, CONTROL, IDENTITY, SWITCH, NodeGraph
from xlanb.clustering.ops_to_cluster import listed_ops
from xlanb.clustering.resource_operation_safety_analysis import VARIABLE, resource_kind
from xlanb.conditions import Condition, asked, first_failing, objecting
from xlanb.debug_options import DebugOptions
from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import op_has_side_effects
from xlanb.graph.operation import Operation
from xlanb.logs import VLog
from xlanb.tracing import Predicate

LOG = VLog("clustering", "mark_for_compilation_pass")
_CHECK_LOG = VLog("clustering", "compilability_check_util")

MUST_COMPILE = "_XlaMustCompile"
COMPILE = "_XlaCompile"
_UNCOMPILABLE = "Found uncompilable node {name} (op {type}): {reason}"


@dataclass(frozen=True)
class MarkingOptions:
    """A session's settings for clustering.

    `global_jit_level` 0 compiles only nodes that `_XlaCompile` or their device requests;
    `cpu_global_jit` lets a session compile CPU nodes by default. With `only_lowered`, nodes that
    xlanb cannot lower stay outside, although TensorFlow can.
    """

    flags: DebugOptions
    global_jit_level: int = 1
    cpu_global_jit: bool = True
    only_lowered: bool = False

    def compiles(self, device: str, *, is_asked: bool) -> bool:
        """Whether nodes on a device are compiled; `is_asked` if an attribute requests it."""
        registration = compilation_device(device)
        if registration is None:
            return False
        policy = registration.policy
        cpu = self.cpu_global_jit or self.flags.tf_xla_cpu_global_jit
        by_policy = {
            ALWAYS: True,
            IF_ENABLED: self.global_jit_level > 0,
            IF_ASKED: cpu and device_type(device) == "CPU",
        }
        return is_asked or by_policy[policy]


def is_asked_for(op: Operation, options: MarkingOptions) -> bool:
    """Whether an attribute of a node, or of the function it calls, requests compilation."""
    return _flag(op, COMPILE) is True or (options.global_jit_level > 0 and _flag(op, MUST_COMPILE) is True)


def asks_for_compilation(graph: Graph) -> bool:
    """Whether a session without JIT must compile anything.

    That is a node of a jit scope, or one on a device that only runs compiled code.
    """
    for op in graph:
        if _flag(op, COMPILE) is True:
            return True
        device = compilation_device(device_of(op)) if op.device else None
        if device is not None and device.policy == ALWAYS:
            return True
    return False


def _flag(op: Operation, name: str) -> bool | None:
    """Return the attribute of the node, or of the function that it calls."""
    function = op.graph.functions.get(op.type)
    for attrs in (op.attrs, function.attrs if function is not None else {}):
        if isinstance(attrs.get(name), bool):
            return bool(attrs[name])
    return None


class Candidates:
    """The conditions, over one graph.

    `found` are the candidates' ids in order, `reasons` says why the others are none.
    """

    def __init__(self, graph: NodeGraph, order: list[int], options: MarkingOptions) -> None:
        self._graph = graph
        self._options = options
        self._constant = must_be_constant(graph, order)
        self._allowed = listed_ops(options.flags)
        self._allows_where = "Where" not in options.flags.tf_xla_cluster_exclude_ops
        self._scopes: dict[str, CallScope] = {}
        self._out_of_fuel: set[Operation] = set()
        self.found: list[int] = []
        self.reasons: dict[str, str] = {}
        conditions = self._conditions()
        self.conditions = tuple([c for c, _ in conditions])
        self._logs = [log for _, log in conditions]
        self._find()

    def _find(self) -> None:
        fuel = self._options.flags.tf_xla_clustering_fuel
        for node, op in enumerate(self._graph.ops):
            if op is None:
                continue
            if fuel <= 0:
                self._out_of_fuel.add(op)
            failed = first_failing(self.conditions, op)
            if failed is None:
                self.found.append(node)
                fuel -= 1
                continue
            log, reason = self._logs[failed], self.conditions[failed].value(op)
            self.reasons[op.name] = reason
            if log:
                place = _CHECK_LOG if log.startswith("Found uncompilable") else LOG
                if place.is_on(2):
                    place.vlog(2, "%s", log.format(name=op.name, type=op.type, reason=reason))

    def _conditions(self) -> tuple[tuple[Condition[Operation], str], ...]:
        """Return every condition in TensorFlow's order, with TensorFlow's log text for its
        failure.
        """
        flags = self._options.flags
        return (
            (
                objecting(
                    "clustering fuel is left (tf_xla_clustering_fuel)",
                    self._fuel,
                    remedy=lambda _: f"raise --tf_xla_clustering_fuel above {flags.tf_xla_clustering_fuel}",
                ),
                "{reason}",
            ),
            (
                objecting(
                    f"{COMPILE} is not false", self._disallowed, remedy=lambda op: f"take {COMPILE} off `{op.name}`"
                ),
                "Rejecting {name}: {reason}",
            ),
            (objecting("its device can compile", self._no_device), "Rejecting {name}: {reason}"),
            (
                objecting(
                    "compilation is requested",
                    self._unasked,
                    remedy=lambda op: f"set --tf_xla_auto_jit=2, or place `{op.name}` in a jit scope",
                ),
                "",
            ),
            *((self._of_node(c), _UNCOMPILABLE) for c in CONDITIONS),
            (
                objecting(
                    "is listed in tf_xla_ops_to_cluster",
                    self._unlisted,
                    remedy=lambda op: f"list {op.type} in --tf_xla_ops_to_cluster for `{op.name}`",
                ),
                "Rejecting TF operation {type} as it is not listed in --tf_xla_ops_to_cluster.",
            ),
            (objecting("is not a stateful must-be-constant op", self._isolated), "Isolating {name}: {reason}"),
            (
                objecting("does not join a loop's condition and body", self._drives_constants),
                "Rejecting {name}: {reason}",
            ),
        )

    def _of_node(self, condition: Condition[Judged]) -> Condition[Operation]:
        """Wrap a condition, so that it gets a node with the scope of its device."""
        return Condition(
            condition.name,
            lambda op: condition.holds(Judged(op, self._scope(op))),
            lambda op: condition.value(Judged(op, self._scope(op))),
            lambda op: condition.remedy(Judged(op, self._scope(op))),
        )

    def _scope(self, op: Operation) -> CallScope:
        device = device_of(op)
        found = self._scopes.get(device)
        if found is None:
            known = compilation_device(device)
            if known is None:
                raise GraphError(f"node {op.name!r}: cannot compile for device {device!r}")
            found = self._scopes[device] = CallScope(known, self._allows_where, self._options.only_lowered)
        return found

    def predicates(self, op: Operation) -> tuple[Predicate, ...]:
        """Every condition on a node, to the end."""
        found = asked(self.conditions, op, to_the_end=True)
        return tuple(p if p.holds else p._replace(value=self.detailed(op, p.value)) for p in found)

    def detailed(self, op: Operation, reason: str) -> str:
        """The reason; of a call that cannot be compiled, with the node within that is at fault."""
        scope = self._scopes.get(device_of(op))
        return reason if scope is None else detailed(op, scope, reason)

    def _fuel(self, op: Operation) -> str:
        return "Hit fuel limit; not marking any remaining ops as clusterable." if op in self._out_of_fuel else ""

    def _no_device(self, op: Operation) -> str:
        device = device_of(op)
        return "" if compilation_device(device) is not None else f"could not find JIT device for {device_type(device)}"

    def _unasked(self, op: Operation) -> str:
        device = device_of(op)
        self._scope(op)  # a device without compilation is rejected before
        is_asked = self._options.compiles(device, is_asked=is_asked_for(op, self._options))
        return "" if is_asked else f"compilation is not requested on {device}"

    def _disallowed(self, op: Operation) -> str:
        if _flag(op, COMPILE) is not False:
            return ""
        where = "" if isinstance(op.attrs.get(COMPILE), bool) else " on callee"
        return f"kXlaCompileAttr({COMPILE}){where} is false."

    def _unlisted(self, op: Operation) -> str:
        return "it is not listed in --tf_xla_ops_to_cluster." if self._allowed and op.type not in self._allowed else ""

    def _isolated(self, op: Operation) -> str:
        if self._graph.ids[op] not in self._constant or not op_has_side_effects(op):
            return ""
        return "must-be-constant stateful op" if resource_kind(op.type) in ("", VARIABLE) else ""

    def _drives_constants(self, op: Operation) -> str:
        """Object to an Identity on a loop Switch's true output with control edges to the body's
        constants.

        It would tie condition and body together.
        """
        if op.type not in IDENTITY or not any(w.type in CONSTANT for w in op.control_outputs):
            return ""
        node = self._graph.ids[op]
        for edge in self._graph.in_edges[node]:
            if edge.port == 1 and edge.slot != CONTROL and self._graph.is_(edge.src, SWITCH):
                inputs = self._graph.op(edge.src).inputs
                if len(inputs) > 1 and inputs[1].op.type == "LoopCond":
                    return (
                        "including it can create dependencies between while loop condition and body computations "
                        "with runtime overhead."
                    )
        return ""
