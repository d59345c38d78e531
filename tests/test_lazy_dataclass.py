"""The decorator of `xlanb.lazy_dataclass` makes what `dataclasses.dataclass` makes, later."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any, ClassVar, get_type_hints

import pytest

from xlanb import lazy_dataclass

DECORATORS = {"lazy": lazy_dataclass.dataclass, "stock": dataclasses.dataclass}


@pytest.fixture(params=DECORATORS.values(), ids=DECORATORS)
def dataclass(request: pytest.FixtureRequest) -> Any:
    return request.param


def is_pending(cls: type, name: str) -> bool:
    return isinstance(vars(cls)[name], lazy_dataclass._Lazy)


def test_methods_are_generated_at_the_first_use():
    @lazy_dataclass.dataclass(frozen=True)
    class Pair:
        """Two."""

        a: int
        b: int = 2

    names = ("__init__", "__eq__", "__hash__", "__dataclass_fields__", "__match_args__")
    assert all(is_pending(Pair, n) for n in names)
    pair = Pair(1)
    assert not is_pending(Pair, "__init__")
    assert is_pending(Pair, "__eq__")
    assert pair == Pair(1, 2) != Pair(2)
    assert not is_pending(Pair, "__eq__")
    assert is_pending(Pair, "__hash__")


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("eq", [False, True])
def test_instances(dataclass, slots, frozen, eq):
    @dataclass(slots=slots, frozen=frozen, eq=eq)
    class Sample:
        """Fields of each kind."""

        limit: ClassVar[int] = 7
        a: int
        b: list[int] = field(default_factory=list)
        c: int = field(default=3, compare=False, repr=False)
        d: tuple[int, ...] = field(default=(1,), init=False)
        e: dict[str, int] = field(default_factory=dict, init=False)
        f: int = field(default=5, kw_only=True, hash=False)

        def total(self) -> int:
            return self.a + self.c

    one, other = Sample(1, [2]), Sample(a=1, b=[2], c=9, f=5)
    assert (one.a, one.b, one.c, one.d, one.e, one.f, one.total()) == (1, [2], 3, (1,), {}, 5, 4)
    assert Sample(1).b is not Sample(1).b
    assert Sample.limit == 7
    assert repr(one) == f"{Sample.__qualname__}(a=1, b=[2], d=(1,), e={{}}, f=5)"
    assert (one == other) is eq
    assert one != Sample(2, [2])
    assert one != (1, [2])
    assert Sample.__match_args__ == ("a", "b", "c")
    assert [f.name for f in dataclasses.fields(Sample)] == ["a", "b", "c", "d", "e", "f"]
    assert dataclasses.asdict(one) == {"a": 1, "b": [2], "c": 3, "d": (1,), "e": {}, "f": 5}
    assert dataclasses.replace(one, a=8).a == 8
    assert dataclasses.is_dataclass(Sample)
    assert hasattr(one, "__dict__") is not slots
    parameters = Sample.__dataclass_params__
    assert (parameters.eq, parameters.frozen, parameters.init, parameters.repr) == (eq, frozen, True, True)
    assert list(inspect.signature(Sample).parameters) == ["a", "b", "c", "f"]
    assert inspect.signature(Sample).parameters["c"].default == 3
    assert get_type_hints(Sample.__init__) == {
        "a": int, "b": list[int], "c": int, "f": int, "return": type(None)
    }  # fmt: skip
    copied = copy.copy(one)
    assert copied.b is one.b
    assert repr(copy.deepcopy(one)) == repr(one)
    with pytest.raises(TypeError):
        Sample()
    with pytest.raises(TypeError):
        Sample(1, [2], 3, 5)
    if frozen:
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
            one.a = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'a'"):
            del one.a
    else:
        one.a = 2
        assert one.a == 2


def test_hashes(dataclass):
    @dataclass(frozen=True)
    class Frozen:
        """Hashed by its fields."""

        a: int
        b: int = field(default=0, hash=False)
        c: int = field(default=0, compare=False)

    @dataclass
    class Mutable:
        """Not hashable."""

        a: int

    @dataclass(frozen=True)
    class Explicit:
        """It has its own hash."""

        a: int

        def __hash__(self) -> int:
            return 11

    @dataclass(frozen=True)
    class Compared:  # noqa: PLW1641 - the decorator adds the hash
        """It has its own comparison."""

        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Compared)

    assert hash(Frozen(1, 2, 3)) == hash(Frozen(1, 4, 5)) == hash((1,))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Mutable(1))
    assert hash(Explicit(1)) == 11
    assert hash(Compared(1)) == hash((1,))
    assert Compared(1) == Compared(2)


def test_order(dataclass):
    @dataclass(order=True)
    class Version:
        """Ordered as a tuple."""

        major: int
        minor: int

    assert Version(1, 2) < Version(1, 3) <= Version(2, 0)
    assert Version(2, 0) > Version(1, 9) >= Version(1, 9)
    with pytest.raises(TypeError):
        assert Version(1, 2) < (1, 3)


@pytest.mark.parametrize("slots", [False, True])
def test_subclasses_begin_with_the_fields_of_their_bases(dataclass, slots):
    @dataclass(frozen=True, slots=slots)
    class Base:
        """Has a check."""

        a: int
        b: int = 2

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError(self.a)

    @dataclass(frozen=True, slots=slots)
    class Derived(Base):
        """Changes a default."""

        c: int = 3
        b: int = 4

    assert repr(Derived(1)) == f"{Derived.__qualname__}(a=1, b=4, c=3)"
    assert Base(1, 4) != Derived(1)
    with pytest.raises(ValueError, match="-1"):
        Derived(-1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Derived(1).c = 2
    assert hasattr(Derived(1), "__dict__") is not slots


def test_methods_of_a_class_stay(dataclass):
    @dataclass
    class Own:
        """Defines what the decorator would add."""

        self: int

        def __init__(self, value: int) -> None:
            self.self = value + 1

        def __repr__(self) -> str:
            return "mine"

    assert Own(1).self == 2
    assert repr(Own(1)) == "mine"


def test_a_field_may_be_called_self(dataclass):
    @dataclass(frozen=True)
    class Holder:
        """Has an awkward name."""

        self: int
        other: int

    assert Holder(1, other=2).self == 1


def test_nonfields_of_subclasses_can_be_assigned(dataclass):
    @dataclass(frozen=True)
    class Base:
        """Frozen."""

        a: int

    class Derived(Base):
        pass

    derived = Derived(1)
    derived.note = "text"
    assert derived.note == "text"
    del derived.note
    with pytest.raises(dataclasses.FrozenInstanceError):
        derived.a = 2


def test_dataclasses_may_derive_from_lazy_ones_and_the_other_way_round():
    for first, second in (DECORATORS.values(), reversed(DECORATORS.values())):

        @first(frozen=True)
        class Base:
            """The first."""

            a: int
            b: list[int] = field(default_factory=list)

        @second(frozen=True)
        class Derived(Base):
            """The second."""

            c: int = 3

        made = Derived(1)
        assert (made.a, made.b, made.c) == (1, [], 3)
        assert dataclasses.replace(made, c=4) == Derived(1, [], 4)


def test_super_reaches_methods_that_are_not_generated_yet():
    @lazy_dataclass.dataclass
    class Base:
        """Has a generated method."""

        a: int

    class Derived(Base):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(a)
            self.b = b

        def __eq__(self, other: object) -> bool:
            return super().__eq__(other) and self.b == other.b

        __hash__ = None

    assert Derived(1, 2) == Derived(1, 2) != Derived(1, 3)


def test_recursive_instances_are_shown(dataclass):
    @dataclass
    class Node:
        """Holds itself."""

        next: Any = None

    node = Node()
    node.next = node
    assert repr(node) == f"{Node.__qualname__}(next=...)"


def test_structural_patterns(dataclass):
    @dataclass
    class Point:
        """Two coordinates."""

        x: int
        y: int = field(kw_only=True)

    match Point(1, y=2):
        case Point(x, y=y):
            assert (x, y) == (1, 2)


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Kept:
    """A class that pickle finds."""

    a: int
    b: tuple[int, ...] = ()


def test_pickled_instances():
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))  # noqa: S301 - our own bytes


def test_defaults_come_last():
    @lazy_dataclass.dataclass
    class Wrong:
        """Cannot be called."""

        a: int = 1
        b: int  # type: ignore[misc]

    with pytest.raises(TypeError, match="field 'b' without default follows one with a default"):
        Wrong(1, 2)


def test_unknown_options_are_rejected():
    with pytest.raises(TypeError, match="not init"):
        lazy_dataclass.dataclass(init=False)


def test_threads_instantiate_a_class_at_the_same_time():
    for _ in range(20):

        @lazy_dataclass.dataclass(frozen=True)
        class Pair:
            """Two."""

            a: int
            b: int

        def use(k: int, cls: Callable[[int, int], Any] = Pair) -> bool:
            return cls(k, 1) == cls(k, 1) and hash(cls(k, 1)) == hash((k, 1))

        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(use, range(16)))


def test_compilations_import_lazy_dataclasses_only():
    code = (
        "import sys, dataclasses, xlanb\n"
        "xlanb.compile('HloModule m\\nENTRY e { ROOT p = f32[4] parameter(0) }')\n"
        "found = {c for n, m in list(sys.modules.items()) if n.startswith('xlanb') for c in vars(m).values()\n"
        "         if isinstance(c, type) and c.__module__.startswith('xlanb') and '__dataclass_fields__' in vars(c)\n"
        "         and '__xlanb_dataclass__' not in vars(c)}\n"
        "print(*sorted(f'{c.__module__}.{c.__qualname__}' for c in found))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not ran.stdout.split()
