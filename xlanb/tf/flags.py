"""tf.flags and tf.app: a program's command line, with absl's flags as programs of 2017 use them."""

# ruff: noqa: N802 - TensorFlow's names

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, Never

from xlanb.errors import FlagError, nearest


class _FlagParser(argparse.ArgumentParser):
    """Report command line errors as FlagError, instead of exiting."""

    def error(self, message: str) -> Never:
        raise FlagError(message)


class _Flags:
    """`tf.flags.FLAGS`: flags as attributes; the command line is parsed when one is first read."""

    def __init__(self) -> None:
        self.__dict__["_parser"] = _FlagParser(allow_abbrev=False, add_help=True)
        self.__dict__["_values"] = {}
        self.__dict__["_names"] = set()
        self.__dict__["_is_parsed"] = False

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        """Parse `argv`, with the program first; return the remaining arguments.

        Raises:
            FlagError: an invalid value, or an unknown flag unless `known_only`.
        """
        found, rest = self._parser.parse_known_args(list(argv)[1:])
        unknown = [a for a in rest if a.startswith("--")]
        if unknown and not known_only:
            raise FlagError(f"Unknown command line flag {unknown[0].lstrip('-').split('=')[0]!r}")
        self._values.update({k: v for k, v in vars(found).items() if k not in self._values or _was_given(k, argv)})
        self.__dict__["_is_parsed"] = True
        return [*list(argv)[:1], *rest]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not self._is_parsed:
            self(sys.argv, known_only=True)
        if name not in self._values:
            raise AttributeError(f"flag {name!r} is not defined{nearest(name, sorted(self._values))}")
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._values[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __dir__(self) -> list[str]:
        return sorted(self.flag_values_dict())

    def flag_values_dict(self) -> dict[str, Any]:
        """All flags with their values."""
        if not self._is_parsed:
            self(sys.argv, known_only=True)
        return dict(self._values)

    def define(self, name: str, default: Any, help_text: str | None, **how: Any) -> None:
        """Add a flag. Raises FlagError where the name is taken by another."""
        try:
            self._parser.add_argument(f"--{name}", dest=name, default=default, help=help_text, **how)
        except argparse.ArgumentError as error:
            raise FlagError(f"flag {name!r} is defined twice: {error}") from None
        self._names.add(name)
        self.__dict__["_is_parsed"] = False

    def define_negation(self, name: str) -> None:
        """Let --noNAME set a boolean flag to false."""
        self._parser.add_argument(f"--no{name}", dest=name, action="store_false", default=argparse.SUPPRESS)


def _was_given(name: str, argv: Sequence[str]) -> bool:
    return any(a.split("=")[0] in {f"--{name}", f"--no{name}"} for a in argv)


FLAGS: Any = _Flags()


def _boolean(text: str) -> bool:
    known = {"true": True, "t": True, "1": True, "yes": True, "false": False, "f": False, "0": False, "no": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return known[text.lower()]


def DEFINE_string(name: str, default: str | None, help: str | None = None) -> None:
    """A flag that is a text."""
    FLAGS.define(name, default, help, type=str)


def DEFINE_integer(
    name: str,
    default: int | None,
    help: str | None = None,
    lower_bound: int | None = None,
    upper_bound: int | None = None,
) -> None:
    """Define an integer flag, with optional bounds."""

    def number(text: str) -> int:
        value = int(text, 0)
        if (lower_bound is not None and value < lower_bound) or (upper_bound is not None and value > upper_bound):
            raise argparse.ArgumentTypeError(f"{value} is not in [{lower_bound}, {upper_bound}]")
        return value

    FLAGS.define(name, default, help, type=number)


def DEFINE_float(name: str, default: float | None, help: str | None = None) -> None:
    """A flag that is a number."""
    FLAGS.define(name, default, help, type=float)


def DEFINE_boolean(name: str, default: bool | None, help: str | None = None) -> None:
    """A flag that is true or false: --x, --x=false, --nox."""
    FLAGS.define(name, default, help, type=_boolean, nargs="?", const=True)
    FLAGS.define_negation(name)


def DEFINE_enum(name: str, default: str | None, enum_values: Sequence[str], help: str | None = None) -> None:
    """A flag that is one of some texts."""
    FLAGS.define(name, default, help, choices=list(enum_values))


def DEFINE_list(name: str, default: Any, help: str | None = None) -> None:
    """A flag that is a list of texts, with commas between."""
    value = default.split(",") if isinstance(default, str) else default
    FLAGS.define(name, value, help, type=lambda text: [part for part in text.split(",") if part])


DEFINE_bool = DEFINE_boolean


def run(main: Callable[[list[str]], Any] | None = None, argv: list[str] | None = None) -> Never:
    """tf.app.run: parse flags, call `main` (or the program's) with the rest, exit with its
    result.
    """
    rest = FLAGS(sys.argv if argv is None else argv, known_only=True)
    function = main or sys.modules["__main__"].main
    sys.exit(function(rest))
