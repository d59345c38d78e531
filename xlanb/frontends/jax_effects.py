"""Effects of a module that JAX handles: the Python functions that it calls, and tokens that order
effects across calls.
"""

from __future__ import annotations

from typing import Any

from xlanb.hlo import HloModule
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import TupleShape

_OF_NUMBERS = ("input_output_alias", "buffer_donor", "allow_spmd_sharding_propagation_to_parameters")
_OF_RESULTS = ("input_output_alias", "allow_spmd_sharding_propagation_to_output")
"""The header's entries about parameters and results, by number."""


def with_effects(module: HloModule, stage: Any) -> HloModule:
    """Add the Python callbacks to the module of a `Lowered` or `Compiled`, in place.

    Afterwards it takes and returns only the function's own arrays. JAX keeps callbacks in private
    fields: if a version lacks them, the module has no callbacks, and reports that when it is run.
    """
    module.host_callbacks = tuple(_callbacks(stage))
    entry = module.entry_computation
    if any(p.shape.is_token for p in entry.parameters):
        module.clear_schedule()
        _begin_with_tokens(module)
        _drop_tokens(module)
    return module


def _callbacks(stage: Any) -> Any:
    lowering = getattr(stage, "_lowering", None)
    if lowering is not None:
        return getattr(lowering, "compile_args", {}).get("host_callbacks", ())
    unloaded = getattr(getattr(stage, "_executable", None), "_unloaded_executable", None)
    return getattr(unloaded, "host_callbacks", ())


def _begin_with_tokens(module: HloModule) -> None:
    """parameter(0) of a token -> after-all().

    One call ends before the next begins, so that their effects are ordered anyway.
    """
    entry = module.entry_computation
    layout = module.entry_layout
    kept: list[HloInstruction] = []
    for p in entry.parameters:
        if p.shape.is_token:
            entry.replace_uses(p, entry.add(Op.AFTER_ALL, (), p.shape))
            entry.remove(p)
        else:
            kept.append(p)
    if layout is not None:
        module.entry_layout = tuple(s for s in layout[0] if not s.is_token), layout[1]
    for number, p in enumerate(kept):
        entry.update(p, attributes={"parameter_number": number})
    for name in _OF_NUMBERS:
        module.header.pop(name, None)


def _drop_tokens(module: HloModule) -> None:
    """ROOT tuple(token, x) -> x; the token's producer stays for its effect."""
    entry, layout = module.entry_computation, module.entry_layout
    root = entry.root
    shapes = root.shape.shapes if isinstance(root.shape, TupleShape) else (root.shape,)
    places = [k for k, s in enumerate(shapes) if not s.is_token]
    if len(places) == len(shapes):
        return
    parts = [_element(root, k) for k in places]
    entry.set_root(parts[0] if len(parts) == 1 else entry.add(Op.TUPLE, parts))
    entry.remove_dead(root)
    if layout is not None:
        results = layout[1].shapes if isinstance(layout[1], TupleShape) else (layout[1],)
        left = tuple(results[k] for k in places)
        module.entry_layout = layout[0], left[0] if len(left) == 1 else TupleShape(left)
    for name in _OF_RESULTS:
        module.header.pop(name, None)


def _element(root: HloInstruction, k: int) -> HloInstruction:
    return root.operands[k] if root.opcode is Op.TUPLE else root.parent.add(Op.GET_TUPLE_ELEMENT, (root,), index=k)
