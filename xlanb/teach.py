"""Exercises that check themselves: a question, a predicate on the answer, hints, and the solution.

    teach.exercise("kernels", lambda n: n == len(exe.kernels),
                   hints=["Look at the entry computation."], truth=lambda: len(exe.kernels))
    teach.check("kernels", ...)     # not answered yet
    teach.check("kernels", 3)       # right, or wrong with the predicate's text; never the solution
    teach.hint("kernels")           # the next hint
    teach.reveal("kernels")         # the solution, after a first answer

A predicate returns True, False, or a text that says what is wrong with the answer. It computes the
right answer from the compiler itself, so that an exercise stays correct when the compiler changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from xlanb.errors import MissingPeerError, XlanbError, nearest
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "AnswerVerdict",
    "Exercise",
    "LessonStopped",
    "ShownTable",
    "check",
    "exercise",
    "hint",
    "needs",
    "reveal",
    "table",
]

_OPEN, _RIGHT, _WRONG, _NOTE = "open", "right", "wrong", "note"
_MARKS = {_OPEN: "…", _RIGHT: "✓", _WRONG: "✗", _NOTE: "→"}
_COLOURS = {_OPEN: "#8a94a3", _RIGHT: "#1a7f4b", _WRONG: "#c0392b", _NOTE: "#2867d6"}
# Exceptions of a predicate on an answer of the wrong type; other exceptions are bugs, and raised.
_ANSWER_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, XlanbError)


@dataclass(frozen=True)
class AnswerVerdict:
    """A verdict on an answer.

    `outcome`: "right", "wrong", "open" (no answer yet) or "note" (hint, solution).
    """

    exercise: str
    outcome: str
    text: str

    @property
    def is_right(self) -> bool:
        """Whether the answer was right."""
        return self.outcome == _RIGHT

    def __str__(self) -> str:
        word = "" if self.outcome == _NOTE else f"{self.outcome}: "
        return f"{_MARKS[self.outcome]} {self.exercise}: {word}{self.text}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        word = "" if self.outcome == _NOTE else f"<b>{self.outcome}</b> "
        lines = escape(self.text).replace("\n", "<br>")
        return (
            f'<div style="border-left:4px solid {_COLOURS[self.outcome]};padding:4px 10px">'
            f"{_MARKS[self.outcome]} <i>{escape(self.exercise)}</i>: {word}{lines}</div>"
        )


@dataclass(eq=False)
class Exercise:
    """One question, with a predicate and a solution.

    `is_right` judges an answer, `right` is the text for a right one, `truth` computes the solution;
    `attempts` counts the answers so far.
    """

    name: str
    is_right: Callable[[Any], bool | str]
    hints: tuple[str, ...] = ()
    right: str = ""
    truth: Callable[[], Any] | None = None
    attempts: int = 0
    _hints_given: int = field(default=0, repr=False)

    def check(self, answer: Any) -> AnswerVerdict:
        """Judge an answer; `...` means none yet.

        A predicate that raises on an answer of the wrong type counts as wrong, with its message.
        """
        if answer is ...:
            more = f" (hints: teach.hint({self.name!r}))" if self.hints else ""
            return AnswerVerdict(self.name, _OPEN, f"put your answer in place of the dots{more}")
        self.attempts += 1
        try:
            found = self.is_right(answer)
            said = found if isinstance(found, str) else "" if bool(found) else "not so"
        except _ANSWER_FAULTS as error:
            said = f"an answer of type {type(answer).__name__} cannot be checked: {error}"
        if not said:
            return AnswerVerdict(self.name, _RIGHT, self.right or "well done")
        left = len(self.hints) - self._hints_given
        return AnswerVerdict(self.name, _WRONG, said + (f"; teach.hint({self.name!r}) gives a hint" if left else ""))

    def hint(self) -> AnswerVerdict:
        """The next hint; the last one again when there are no more."""
        if not self.hints:
            return AnswerVerdict(self.name, _NOTE, "this exercise has no hint")
        at = min(self._hints_given, len(self.hints) - 1)
        self._hints_given = at + 1
        return AnswerVerdict(self.name, _NOTE, f"hint {at + 1} of {len(self.hints)}: {self.hints[at]}")

    def reveal(self) -> AnswerVerdict:
        """Return the solution, computed by the compiler; only after a first answer."""
        if self.truth is None:
            return AnswerVerdict(self.name, _NOTE, "the solution is folded below the question")
        if not self.attempts:
            return AnswerVerdict(self.name, _OPEN, "predict first, then reveal")
        return AnswerVerdict(self.name, _NOTE, str(self.truth()))

    def __str__(self) -> str:
        return f"{self.name}: {self.attempts} answers, {len(self.hints)} hints"


_EXERCISES: dict[str, Exercise] = {}


def exercise(
    name: str,
    is_right: Callable[[Any], bool | str],
    *,
    hints: Sequence[str] = (),
    right: str = "",
    truth: Callable[[], Any] | None = None,
) -> None:
    """Register an exercise under a name, replacing one of the same name."""
    _EXERCISES[name] = Exercise(name, is_right, tuple(hints), right, truth)


def check(name: str, answer: Any = ...) -> AnswerVerdict:
    """Judge an answer to the exercise of this name.

    Raises:
        XlanbError: no exercise of this name was posed.
    """
    return _found(name).check(answer)


def hint(name: str) -> AnswerVerdict:
    """The next hint for the exercise of this name.

    Raises:
        XlanbError: no exercise of this name was posed.
    """
    return _found(name).hint()


def reveal(name: str) -> AnswerVerdict:
    """Return the solution, after a first answer.

    Raises:
        XlanbError: there is no exercise of this name.
    """
    return _found(name).reveal()


@dataclass(frozen=True)
class ShownTable:
    """A table for readers: texts left-aligned and in full, whatever pandas' options and the page's
    style.
    """

    frame: pd.DataFrame

    def __str__(self) -> str:
        text: str = self.frame.to_string(index=False, max_colwidth=120)
        return text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from xlanb.view.tables import table_html  # late: the view is slow to import

        return f'<div style="overflow-x:auto">{table_html(self.frame)}</div>'


def table(frame: pd.DataFrame) -> ShownTable:
    """A pandas table without its index, its words at the left and not cut."""
    return ShownTable(frame)


class LessonStopped(MissingPeerError):  # noqa: N818 - a stop, no fault
    """A lesson stops because a package is not installed.

    A notebook shows the message, no traceback.
    """

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def needs(package: str, extra: str = "peers") -> None:
    """Stop the lesson if a package is not installed, with a message on how to install it.

    Raises:
        LessonStopped: the package is not installed.
    """
    if find_spec(package) is None:
        raise LessonStopped(
            f"This lesson needs {package}, which is not installed here: the rest of the lesson cannot run.\n"
            f"To install it: pip install 'xlanb[{extra}]', then restart the kernel. Its saved outputs can still "
            "be read."
        )


def _found(name: str) -> Exercise:
    if name not in _EXERCISES:
        raise XlanbError(f"no exercise {name!r} was defined{nearest(name, _EXERCISES)}")
    return _EXERCISES[name]


def __dir__() -> list[str]:
    return __all__
