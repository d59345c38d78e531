"""A dataclass decorator that generates `__init__` when a class is first instantiated.

`dataclasses.dataclass` compiles about six methods for each class while its module is imported. A
compilation imports some 250 such classes and instantiates half of them.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
from functools import cache, partial
from reprlib import recursive_repr
from threading import RLock
from types import CodeType, FunctionType

from xlanb.hooks import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from dataclasses import dataclass
    from typing import Any

    __all__ = ["dataclass"]

_OPTIONS = {"eq": True, "frozen": False, "order": False, "repr": True, "slots": False}
_GENERATOR = "__xlanb_dataclass__"
_FIELDS = "__dataclass_fields__"
_MISSING = dataclasses.MISSING
_FACTORY: Any = object()
"""The default of a parameter whose field has a default factory."""
_lock = RLock()


if not TYPE_CHECKING:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Make a dataclass as `dataclasses.dataclass` does, with `__init__` generated when needed.

        Mistakes in fields (the order of defaults, mutable ones) are reported at the first use. A
        class without docstring gets none. Fields are neither `InitVar` nor after `KW_ONLY`.

        Args:
            cls: The class, if the decorator is written without parentheses.
            options: eq, frozen, order, repr, slots.

        Raises:
            TypeError: There is no such option.
        """
        if not options.keys() <= _OPTIONS.keys():
            raise TypeError(f"dataclass() takes {', '.join(_OPTIONS)}, not {', '.join(options.keys() - _OPTIONS)}")
        chosen = _OPTIONS | options
        return _made(cls, chosen) if cls is not None else lambda c: _made(c, chosen)


def _made(cls: type, options: dict[str, bool]) -> type:
    generator = _Generator(cls, options)
    own = vars(cls)
    if options["slots"]:
        cls = generator.target = _with_slots(cls, generator)
    else:
        for name in generator.own_fields:
            if isinstance(own.get(name), dataclasses.Field):
                _set_default(cls, name, own[name])
    for name, value in generator.attributes().items():
        setattr(cls, name, value)
    setattr(cls, _GENERATOR, generator)
    return cls


def _set_default(cls: type, name: str, field: Any) -> None:
    if field.default is _MISSING:
        delattr(cls, name)
    else:
        setattr(cls, name, field.default)


def _with_slots(cls: type, generator: _Generator) -> type:
    """A copy of the class whose fields are in slots."""
    names = generator.fields()
    inherited = {s for base in cls.__mro__[1:-1] for s in _slots(base)}
    body = {k: v for k, v in vars(cls).items() if k not in names and k not in {"__dict__", "__weakref__"}}
    body["__slots__"] = tuple(n for n in names if n not in inherited)
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made


def _slots(base: type) -> Iterable[str]:
    slots = vars(base).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots


class _Lazy:
    """An attribute of a class that is generated when it is looked up."""

    __slots__ = ("_generator", "_make", "_name")

    def __init__(self, generator: _Generator, name: str, make: Callable[[_Generator], Any]) -> None:
        self._generator, self._name, self._make = generator, name, make

    def __get__(self, instance: object, owner: type) -> Any:
        with _lock:
            cls = self._generator.target
            if vars(cls)[self._name] is self:
                setattr(cls, self._name, self._make(self._generator))
            value = vars(cls)[self._name]
        bind = getattr(type(value), "__get__", None)
        return value if bind is None else bind(value, instance, owner)


class _Generator:
    """What the decorator adds to one class."""

    __slots__ = ("_found", "_own", "options", "own_fields", "target")

    def __init__(self, cls: type, options: dict[str, bool]) -> None:
        self.target, self.options = cls, options
        self._own = dict(vars(cls))
        annotations: dict[str, str] = self._own.get("__annotations__", {})
        self.own_fields = {n: a for n, a in annotations.items() if not a.startswith(("ClassVar", "typing.ClassVar"))}
        self._found: dict[str, tuple[str, Any]] | None = None

    def attributes(self) -> dict[str, Any]:
        """The attributes to set on the class, except those that it defines itself."""
        options = self.options
        made: dict[str, Any] = {name: _Lazy(self, name, make) for name, make in _LAZY.items()}
        if options["repr"]:
            made["__repr__"] = _repr
        if options["eq"]:
            made["__eq__"] = _Lazy(self, "__eq__", _Generator.eq)
            if "__hash__" not in self._own or (self._own["__hash__"] is None and "__eq__" in self._own):
                made["__hash__"] = _Lazy(self, "__hash__", _Generator.hash) if options["frozen"] else None
        if options["order"]:
            made |= {name: _Lazy(self, name, partial(_Generator.order, operation=f)) for name, f in _ORDER.items()}
        if options["frozen"]:
            made |= _forbid_assignment(self)
        if options["frozen"] and options["slots"]:
            made |= {"__getstate__": _getstate, "__setstate__": _setstate}
        return {n: v for n, v in made.items() if n not in self._own or n == "__hash__"}

    def fields(self) -> dict[str, tuple[str, Any]]:
        """Annotation and Field of each field by name, those of bases first."""
        if self._found is None:
            found: dict[str, tuple[str, Any]] = {}
            for base in self.target.__mro__[-1:0:-1]:
                generator = vars(base).get(_GENERATOR)
                if generator is not None:
                    found |= generator.fields()
                elif _FIELDS in vars(base):
                    found |= {f.name: (str(f.type), f) for f in dataclasses.fields(base)}
            for name, annotation in self.own_fields.items():
                value = self._own.get(name, _MISSING)
                is_field = isinstance(value, dataclasses.Field)
                found[name] = annotation, value if is_field else dataclasses.field(default=value)
            self._found = found
        return self._found

    def init(self) -> Callable[..., None]:
        """Make `__init__`, in the namespace of the class's module."""
        fields = {n: f for n, (_, f) in self.fields().items()}
        placeholders = {name: f"F{k}" for k, name in enumerate(fields)}
        makers = {f"make_{placeholders[n]}": make for n, f in fields.items() if (make := self._maker(f)) is not None}
        keywords = [n for n, f in fields.items() if f.init and f.kw_only is True]
        positional = [n for n, f in fields.items() if f.init and n not in keywords]
        given = ["THIS", *(placeholders[n] for n in positional)]
        if keywords:
            given += ["*", *(placeholders[n] for n in keywords)]
        create = _template(", ".join(given), self._assignments(placeholders, makers), ", ".join(makers))
        template = create(object.__setattr__, _FACTORY, *makers.values())
        names = {p: n for n, p in placeholders.items()} | {"THIS": "self" if "self" not in fields else "_self"}
        module, defaults = vars(sys.modules[self.target.__module__]), _defaults(fields)
        made = FunctionType(_renamed(template.__code__, names), module, "__init__", None, template.__closure__)
        made.__defaults__ = tuple(defaults[n] for n in positional if n in defaults)
        made.__kwdefaults__ = {n: defaults[n] for n in keywords if n in defaults}
        made.__qualname__ = f"{self.target.__qualname__}.__init__"
        made.__annotations__ = {n: a for n, (a, f) in self.fields().items() if f.init} | {"return": None}
        return made

    def _assignments(self, placeholders: dict[str, str], makers: Container[str]) -> str:
        """The body of `__init__`."""
        lines = []
        for name, (_, f) in self.fields().items():
            parameter = placeholders[name]
            make = f"make_{parameter}"
            if make in makers:
                value = f"{make}() if {parameter} is factory else {parameter}" if f.init else f"{make}()"
            elif f.init:
                value = parameter
            else:
                continue
            is_frozen = self.options["frozen"]
            lines.append(f"set(THIS, {parameter!r}, {value})" if is_frozen else f"THIS.{parameter} = {value}")
        if hasattr(self.target, "__post_init__"):
            lines.append("THIS.__post_init__()")
        return "; ".join(lines) or "pass"

    def _maker(self, f: Any) -> Callable[[], Any] | None:
        """What makes the value of a field that isn't the argument of `__init__`, if any."""
        if f.default_factory is not _MISSING:
            made: Callable[[], Any] = f.default_factory
            return made
        if not f.init and f.default is not _MISSING and self.options["slots"]:
            return lambda: f.default
        return None

    def eq(self) -> Callable[[Any, Any], bool]:
        """Make `__eq__`: instances of the same class are equal if their fields are."""
        key = _tuple_of([n for n, (_, f) in self.fields().items() if f.compare])

        def equal(self: Any, other: Any) -> bool:
            return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

        return equal

    def hash(self) -> Callable[[Any], int]:
        """Make `__hash__`."""
        key = _tuple_of([n for n, (_, f) in self.fields().items() if (f.compare if f.hash is None else f.hash)])

        return lambda instance: hash(key(instance))

    def order(self, operation: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
        """Make a comparison of the fields as tuples."""
        key = _tuple_of([n for n, (_, f) in self.fields().items() if f.compare])

        def compare(self: Any, other: Any) -> bool:
            return operation(key(self), key(other)) if other.__class__ is self.__class__ else NotImplemented

        return compare

    def match_args(self) -> tuple[str, ...]:
        return tuple(n for n, (_, f) in self.fields().items() if f.init and f.kw_only is not True)

    def fields_of_dataclasses(self) -> dict[str, Any]:
        """Make `__dataclass_fields__`, which only `dataclasses` can."""
        found: dict[str, Any] = vars(self._stand_in(init=False, repr=False, eq=False))[_FIELDS]
        return found

    def parameters(self) -> Any:
        """Make `__dataclass_params__`."""
        return vars(self._stand_in(**self.options))["__dataclass_params__"]

    def _stand_in(self, **options: bool) -> type:
        """A class with the same fields, made by `dataclasses`."""
        fields = self.fields()
        body = {n: f for n, (_, f) in fields.items()} | {"__annotations__": {n: a for n, (a, _) in fields.items()}}
        body |= {"__module__": self.target.__module__, "__doc__": "A stand-in."}
        return dataclasses.dataclass(**options)(type(self.target.__name__, (), body))


@cache
def _template(parameters: str, body: str, makers: str) -> Callable[..., FunctionType]:
    """Compile an `__init__` with placeholders for the names of fields."""
    text = f"def create(set, factory, {makers}):\n def __init__({parameters}): {body}\n return __init__"
    place: dict[str, Any] = {}
    exec(text, {}, place)  # noqa: S102 - of placeholders only
    made: Callable[..., FunctionType] = place["create"]
    return made


def _renamed(code: CodeType, names: dict[str, str]) -> CodeType:
    """The code with other names of variables, attributes and strings."""

    def renamed(old: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(names.get(x, x) if isinstance(x, str) else x for x in old)

    return code.replace(
        co_varnames=renamed(code.co_varnames), co_names=renamed(code.co_names), co_consts=renamed(code.co_consts)
    )


def _defaults(fields: dict[str, Any]) -> dict[str, Any]:
    """The defaults of parameters.

    Raises:
        TypeError: A field without default follows one with a default.
    """
    found: dict[str, Any] = {}
    for name, f in fields.items():
        if not f.init:
            continue
        if f.default_factory is not _MISSING or f.default is not _MISSING:
            found[name] = f.default if f.default_factory is _MISSING else _FACTORY
        elif found and f.kw_only is not True:
            raise TypeError(f"the field {name!r} without default follows one with a default")
    return found


def _tuple_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _: ()
    get = operator.attrgetter(*names)
    return get if len(names) > 1 else lambda x: (get(x),)


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{n}={getattr(self, n)!r}" for n, (_, f) in getattr(self, _GENERATOR).fields().items() if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, n) for n in getattr(self, _GENERATOR).fields()]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, _GENERATOR).fields(), state, strict=True):
        object.__setattr__(self, name, value)


def _forbid_assignment(generator: _Generator) -> dict[str, Callable[..., None]]:
    """Methods that raise FrozenInstanceError for fields; subclasses may have other attributes."""

    def forbids(instance: object, name: str) -> bool:
        return type(instance) is generator.target or name in generator.fields()

    def base(instance: object) -> Any:
        return super(generator.target, instance)

    def assign(self: object, name: str, value: object) -> None:
        if forbids(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        base(self).__setattr__(name, value)

    def delete(self: object, name: str) -> None:
        if forbids(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        base(self).__delattr__(name)

    return {"__setattr__": assign, "__delattr__": delete}


_ORDER = {"__lt__": operator.lt, "__le__": operator.le, "__gt__": operator.gt, "__ge__": operator.ge}
_LAZY: dict[str, Callable[[_Generator], Any]] = {
    "__init__": _Generator.init,
    "__match_args__": _Generator.match_args,
    _FIELDS: _Generator.fields_of_dataclasses,
    "__dataclass_params__": _Generator.parameters,
}
if sys.version_info >= (3, 13):
    _LAZY["__replace__"] = lambda _: dataclasses.replace
