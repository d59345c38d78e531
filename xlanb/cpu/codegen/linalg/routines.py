"""All routines that there are: each module named here adds its rows to the table."""

from __future__ import annotations

from xlanb.cpu.codegen.linalg import cholesky as _cholesky  # noqa: F401 - registers its routine
from xlanb.cpu.codegen.linalg import eigh as _eigh  # noqa: F401 - registers its routines
from xlanb.cpu.codegen.linalg import lu as _lu  # noqa: F401 - registers its routine
from xlanb.cpu.codegen.linalg import opcodes as _opcodes  # noqa: F401 - registers its routines
from xlanb.cpu.codegen.linalg import ormqr as _ormqr  # noqa: F401 - registers its routine
from xlanb.cpu.codegen.linalg import pivoted_qr as _pivoted_qr  # noqa: F401 - registers its routine
from xlanb.cpu.codegen.linalg import qr as _qr  # noqa: F401 - registers its routines
from xlanb.cpu.codegen.linalg import svd as _svd  # noqa: F401 - registers its routines
from xlanb.cpu.codegen.linalg import triangular as _triangular  # noqa: F401 - registers its routine
from xlanb.cpu.codegen.linalg.custom_call import native
from xlanb.cpu.emitters import linalg
from xlanb.hlo.instruction import HloInstruction


def has_kernel(i: HloInstruction) -> bool:
    """Whether an instruction is a routine of linear algebra that is a kernel here, and no call of the runtime."""
    return native(i) is not None or linalg.has_kernel(i)
