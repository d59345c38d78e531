"""Every error xlanb raises on purpose; each message shows the IR, the text or the node at fault."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from xlanb.hooks import Hook

render_traceback: Final[Hook[[Any], list[str]]] = Hook("errors.render_traceback")
"""The lines that IPython shows of an `XlanbError`."""

_FEW: Final = 12  # names that a message lists if none is near


class XlanbError(Exception):
    """Base of all errors that xlanb raises. Only `InternalError` means a bug of xlanb itself.

    A notebook shows the message and the user's lines; `%tb` shows all frames, `%debug` steps
    through them.
    """

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows."""
        return render_traceback(self)


class HloParseError(XlanbError):
    """HLO text that is not well formed.

    Attributes:
        line: 1-based line of the fault; 0 where unknown.
        column: 1-based column of the fault; 0 where unknown.
    """

    def __init__(self, message: str, text: str | None = None, offset: int | None = None) -> None:
        self.line = self.column = 0
        if text is not None and offset is not None:
            offset = min(offset, len(text))
            start = text.rfind("\n", 0, offset) + 1
            end = text.find("\n", offset)
            source = text[start : end if end >= 0 else len(text)]
            self.line = text.count("\n", 0, offset) + 1
            self.column = offset - start + 1
            message = f"{self.line}:{self.column}: {message}\n{_caret(source, self.column)}"
        super().__init__(message)


class HloVerifierError(XlanbError):
    """A module breaks a rule of HLO; the message shows the instruction and its neighbours."""


class ShapeError(XlanbError):
    """Shapes, element types or attributes that do not fit the opcode (shape inference refuses)."""


class LiteralError(XlanbError):
    """A literal's text or values do not match its shape."""


class UnimplementedError(XlanbError):
    """Valid input that xlanb cannot handle; the message names the construct."""


class EvaluationError(XlanbError):
    """The reference interpreter cannot give a result for these inputs."""


class RaceError(EvaluationError):
    """Two unordered threads of a GPU kernel access one address, and one of them writes.

    The message names the address, the threads and the instructions.
    """


class OutOfMemoryError(XlanbError, MemoryError):
    """More memory is requested than available; the message states by what, how much, and how much
    is available. `wanted` is in bytes, 0 if unknown.
    """

    def __init__(self, message: str, wanted: int = 0) -> None:
        self.wanted = wanted
        super().__init__(message)


class InstructionError(EvaluationError):
    """The reference interpreter cannot evaluate an instruction; the message shows the innermost
    one.
    """


class UnimplementedInstructionError(InstructionError, UnimplementedError):
    """An instruction needs something that the reference interpreter lacks, such as more devices."""


class InstructionMemoryError(InstructionError, OutOfMemoryError):
    """The reference interpreter has no memory for the value of an instruction."""


class PassError(XlanbError):
    """A pass is unknown, broke the module, or does not reach a fixed point.

    `path` names the enclosing pipelines and, last, the pass; () if none ran.
    """

    def __init__(self, message: str = "", path: tuple[str, ...] = ()) -> None:
        self.path = path
        super().__init__(message)


class UnknownPassError(PassError, KeyError):
    """No pass has this name (a mapping raises KeyError); the message lists the nearest names."""

    __str__ = Exception.__str__


class CompilationError(XlanbError):
    """The backend could not turn a module into machine code."""


class ArgumentError(XlanbError):
    """Arrays handed to an executable that do not fit its parameters (count, dtype, shape)."""


class ArgumentTypeError(ArgumentError, TypeError):
    """Arguments that do not fit a function's signature, or an object that is not a program, where
    Python raises TypeError.
    """


class DeviceError(XlanbError):
    """One of the devices that run a program together has failed, is late, or waits for others that
    never arrive; the message lists which device waits where.

    What made a device fail is the error's cause.
    """


class CancelledError(XlanbError):
    """`Executable.cancel` or `Session.close` stopped a run (status CANCELLED of TensorFlow and
    XLA).
    """


class GraphError(XlanbError):
    """A TensorFlow graph that is not well formed; the message names the node."""


class GraphTypeError(GraphError, TypeError):
    """Element types or Python values that do not fit an op, where TensorFlow raises TypeError."""


class GraphValueError(GraphError, ValueError):
    """Shapes, names or attributes are invalid for an op, where TensorFlow raises ValueError."""


class FunctionResultError(GraphError):
    """A function over `xlanb.tf` returns something other than tensors.

    `holds_tensors`: it returns tensors in a structure, as JAX's functions may.
    """

    def __init__(self, message: str, *, holds_tensors: bool = False) -> None:
        self.holds_tensors = holds_tensors
        super().__init__(message)


class DataLossError(GraphError):
    """A file of values is truncated or its checksum is wrong; the message names the file and the
    value.
    """


class UnknownOpError(GraphError):
    """A TensorFlow op type that has no lowering here; the message names node and op."""


class FeedError(XlanbError):
    """A feed, fetch, infeed or outfeed array is missing, unknown, or has a wrong dtype or shape."""


class UninitializedError(XlanbError):
    """A variable that is read before it was initialised (TensorFlow's FailedPreconditionError)."""


class FlagError(XlanbError):
    """A flag in XLA_FLAGS, TF_XLA_FLAGS or XLANB_FLAGS is unknown or has an invalid value."""


class DumpError(XlanbError):
    """A dump directory or one of its files that cannot be read."""


class MissingLibraryError(XlanbError, ImportError):
    """A required Python library is not installed; the message says how to install it."""


class InternalError(XlanbError):
    """A bug of xlanb: an exception that it did not raise on purpose, kept as `__cause__`.

    Attributes:
        doing: What failed, such as "compile" or "run the pass cpu/algsimp"; "" if unknown.
        instruction: The instruction at fault as HLO text, or a graph node; "" if unknown.
        path: The enclosing pipelines and, last, the pass that failed; () if it was not a pass.
    """

    def __init__(self, message: str, doing: str = "", instruction: str = "", path: tuple[str, ...] = ()) -> None:
        self.doing = doing
        self.instruction = instruction
        self.path = path
        super().__init__(message)


class MissingPeerError(XlanbError):
    """The real XLA or TensorFlow is needed but not installed; the message names the extra."""


def close_names(name: str, known: Iterable[str], count: int = 3, cutoff: float = 0.5) -> list[str]:
    """Up to `count` of the known names that are spelled like `name`, the most alike first."""
    from difflib import get_close_matches  # an error is rare, and this file is read by all

    return get_close_matches(name, list(dict.fromkeys(known)), count, cutoff)


def did_you_mean(name: str, known: Iterable[str], count: int = 3) -> str:
    """End a message with "; did you mean 'fusion' or 'row-fusion'?", or "" if no name is near."""
    *others, last = [repr(n) for n in close_names(name, known, count)] or [""]
    return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""


def nearest(name: str, known: Iterable[str], count: int = 3) -> str:
    """End a message about an unknown name: "; did you mean 'fusion'?", else the names or their
    number.
    """
    names = list(dict.fromkeys(known))
    if not names:
        return "; none exist"
    close = did_you_mean(name, names, count)
    if close:
        return close
    return f"; known: {', '.join(names)}" if len(names) <= _FEW else f" among {len(names)}"


def _caret(source: str, column: int, width: int = 160) -> str:
    """The source line with a caret under `column` (1-based), cut to `width` around it."""
    start = max(0, column - 1 - width // 2)
    piece = source[start : start + width].expandtabs(1)
    return f"  {piece}\n  {' ' * (column - 1 - start)}^"
