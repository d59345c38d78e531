"""Run propagation on a module and write a sharding on every instruction."""

from __future__ import annotations

from xlanb.hlo.module import HloModule
from xlanb.spmd.shardy.constants import merge_constants, split_constants
from xlanb.spmd.shardy.constraints import apply_constraints
from xlanb.spmd.shardy.decisions import decisions
from xlanb.spmd.shardy.export import export_program, make_ends_even
from xlanb.spmd.shardy.import_ import import_module
from xlanb.spmd.shardy.propagation import propagate
from xlanb.spmd.shardy.reshards import insert_reshards
from xlanb.tracing import emit, is_observed


def spread(module: HloModule) -> None:
    """Give every instruction of a module that names a mesh its sharding, in place.

    Raises:
        XlanbError: a sharding is not in Shardy's form, or does not fit its value.
    """
    program = import_module(module)
    split_constants(program)
    apply_constraints(program)
    module.notes["propagation"] = propagation = propagate(program)
    if is_observed():
        for decision in decisions(propagation):  # before the program changes
            emit(decision)
    merge_constants(program)
    make_ends_even(program)
    insert_reshards(program)
    export_program(program, module)
