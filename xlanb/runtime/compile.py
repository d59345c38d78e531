"""`compile`: compile a program at once, for the shapes that it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from xlanb.boundary import filtered_traceback
from xlanb.cpu.executable import Executable
from xlanb.gc_thresholds import raised_gc_thresholds
from xlanb.runtime.compiler import compiled, compiled_text
from xlanb.runtime.program import to_module

if TYPE_CHECKING:
    from xlanb.gpu.executable import GpuExecutable


@overload
def compile(x: Any, /, *args: Any, target: Literal["cpu"] = ..., **named: Any) -> Executable: ...  # noqa: A001


@overload
def compile(x: Any, /, *args: Any, target: str, **named: Any) -> Executable | GpuExecutable: ...  # noqa: A001


@filtered_traceback()
@raised_gc_thresholds()
def compile(x: Any, /, *args: Any, target: str = "cpu", **named: Any) -> Executable | GpuExecutable:  # noqa: A001 - the public name
    """Compile a program, by default for the CPU: `exe = xlanb.compile(x); exe(*arrays)`.

    The code is specialized to the shapes and element types given here. Parameters of a graph's
    executable are its placeholders and variables, in the order of the graph.

    Args:
        x: An HloModule; HLO text; a function that `jax.jit` takes, or its result (`jax.jit(f)`, a
            Lowered, a Compiled, a `jax.export.Exported` or its bytes); a function over `xlanb.tf`;
            tensors of a graph; or a TensorFlow program as `Graph.from_tensorflow` takes it.
        *args: For a function, example arguments: arrays, numbers, pytrees of them, or
            `jax.ShapeDtypeStruct`s. Only their shapes and dtypes matter.
        target: "cpu", or an NVIDIA GPU ("a100", "h100", ...: see xlanb.gpu.devices), which need not
            be present.
        **named: Keyword arguments of a JAX function; for a graph, arrays by the name of a
            placeholder or variable whose shape is unknown in the graph.

    Returns:
        The Executable. Called with one array per parameter it returns a fresh array, or a tuple if
        the program does. For a JAX function it is called like the function without its static
        arguments, and returns the function's result with NumPy arrays, or with jax.Arrays if an
        argument is one. For a function over `xlanb.tf` it returns arrays in the structure of the
        function's result. For a GPU it is a GpuExecutable: its kernels as PTX, the launch sequence,
        and `emulate`, which runs the kernels on the CPU.

    Raises:
        HloParseError: The text is not HLO.
        HloVerifierError: The module violates a rule of HLO; the message shows the instruction.
        GraphError: A node has no lowering, or is malformed; the message names it.
        CompilationError: No machine code can be generated.
        XlanbError: The base class of these.
        TypeError: `x` is none of these.
    """
    for_cpu = target.strip().lower() == "cpu"
    if for_cpu and isinstance(x, str) and x.startswith("HloModule") and not (args or named):
        return compiled_text(x, lambda: to_module(x))
    module = to_module(x, *args, **named)
    if for_cpu:
        return compiled(module)
    from xlanb.runtime.gpu_compiler import gpu_compiled  # not loaded for the CPU

    return gpu_compiled(module, target)


__all__ = ["compile"]
