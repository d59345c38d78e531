"""All op types in one table: how xlanb runs each, and whether TensorFlow's XLA does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlanb.clustering.xla_kernels import CPU_JIT, GPU_JIT, kernel_constraints
from xlanb.graph.gradients import registry as gradients
from xlanb.graph.ops import OpDef, get_op, op_names
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.dataflow import CONTROL_FLOW
from xlanb.runtime.host.ops import host_kernel
from xlanb.tf2xla.registry import kernel

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RegisteredOp:
    """One op type.

    Attributes:
        op: Its name.
        xlanb: How xlanb runs it: "XLA_CPU_JIT" (lowered to HLO, in clusters too), "op by op"
            (lowered, never clustered), "host", or "" (unsupported).
        xlanb_dtypes: By attribute, the supported element types, if it is lowered.
        tensorflow: "XLA_CPU_JIT" if TensorFlow's tf2xla has a kernel, else "".
        tensorflow_dtypes: By attribute, the element types of those kernels.
        tensorflow_gpu: "XLA_GPU_JIT" if tf2xla has a kernel for GPUs, else "".
        tensorflow_gpu_dtypes: By attribute, the element types of those.
        gradient: "yes", "none" (no gradient flows through it), or "" (not defined).
        doc: A description.
    """

    op: str
    xlanb: str
    xlanb_dtypes: str
    tensorflow: str
    tensorflow_dtypes: str
    tensorflow_gpu: str
    tensorflow_gpu_dtypes: str
    gradient: str
    doc: str


def table() -> list[RegisteredOp]:
    """A row for each op type that xlanb's op table or TensorFlow's tf2xla has, by name."""
    known = op_names()
    return [_row(get_op(name)) for name in known]


def registered_ops() -> pd.DataFrame:
    """All op types as a table, indexed by `op`.

    It shows how xlanb runs each and for which element types, TensorFlow's kernels, and whether
    there is a gradient.
    """
    import pandas as pd

    return pd.DataFrame([vars(row) for row in table()]).set_index("op")


def _row(op: OpDef) -> RegisteredOp:
    ours = _device(op.name)
    theirs, on_gpu = kernel_constraints(op.name), kernel_constraints(op.name, GPU_JIT)
    return RegisteredOp(
        op.name,
        ours,
        _types(op) if ours in {"XLA_CPU_JIT", "op by op"} else "",
        CPU_JIT if theirs is not None else "",
        _listed(theirs),
        GPU_JIT if on_gpu is not None else "",
        _listed(on_gpu),
        gradients.status(op.name),
        op.doc,
    )


def _listed(constraints: Mapping[str, frozenset[str]] | None) -> str:
    return "; ".join(f"{attr}: {' '.join(sorted(types))}" for attr, types in (constraints or {}).items())


def _device(name: str) -> str:
    found = kernel(name)
    if found is not None:
        return "XLA_CPU_JIT" if found.is_compilable else "op by op"
    return "host" if host_kernel(name) is not None or name in CONTROL_FLOW else ""


def _types(op: OpDef) -> str:
    """The element types that attributes of the op allow, as far as HLO has them."""
    parts = []
    for attr in op.attrs:
        if attr.kind == "type" and attr.allowed:
            parts.append(f"{attr.name}: {' '.join(sorted(t.short_name for t in attr.allowed if t.has_numpy_dtype))}")
        elif attr.kind == "type":
            parts.append(f"{attr.name}: any")
    return "; ".join(parts)
