"""get_variable and variable_scope: variables by name, shared if reuse is requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders.initializers import Zeros, glorot_uniform
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variables import Variable, resource_variables_wanted
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import DType, as_dtype, float32
from xlanb.graph.tensor_shape import TensorShape

AUTO_REUSE = "AUTO_REUSE"
_KEY = "__variable_store"


@dataclass(frozen=True)
class VariableScope:
    """Settings that get_variable takes from the enclosing scopes.

    `name` is "" at the root; `original_name_scope` is the name scope, with its "/".
    """

    name: str = ""
    reuse: Any = False
    initializer: Any = None
    regularizer: Any = None
    dtype: Any = float32
    use_resource: bool | None = None
    constraint: Any = None
    original_name_scope: str = ""

    def reuse_variables(self) -> None:
        """From now on get_variable in this scope finds variables and makes none."""
        store = _store()
        store.scope = replace(store.scope, reuse=True)

    def get_variable(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """`tf.get_variable` in this scope."""
        return _store().get(self, name, *args, **kwargs)

    def global_variables(self) -> list[Any]:
        """Its variables."""
        return get_default_graph().get_collection("variables", f"{self.name}/")

    def trainable_variables(self) -> list[Any]:
        """Its trainable variables."""
        return get_default_graph().get_collection("trainable_variables", f"{self.name}/")


@dataclass
class _Store:
    """A graph's variables by full name, the current scope, and how often each scope was opened."""

    scope: VariableScope = field(default_factory=VariableScope)
    variables: dict[str, Any] = field(default_factory=dict)
    opened: dict[str, int] = field(default_factory=dict)

    def get(
        self,
        scope: VariableScope,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool = True,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        custom_getter: Any = None,
        constraint: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Return the variable of that name in the scope, made or found according to `reuse`.

        Raises:
            GraphValueError: it exists but is not reused, or vice versa, or shape or dtype differ.
        """
        if partitioner is not None or custom_getter is not None:
            raise GraphValueError(
                "get_variable: leave out partitioner and custom_getter: a variable is made here, whole"
            )
        full = f"{scope.name}/{name}" if scope.name else name
        found = self.variables.get(full)
        wanted = None if dtype is None else as_dtype(dtype)
        if found is not None:
            if not scope.reuse:
                place = f", created at {found.op.source_file}:{found.op.source_line}" if found.op.source_line else ""
                raise GraphValueError(
                    f"Variable {full} already exists, disallowed{place}. Did you mean to set reuse=True or "
                    "reuse=tf.AUTO_REUSE in the variable scope?"
                )
            return _fitting(found, full, shape, wanted)
        if scope.reuse is True:
            raise GraphValueError(
                f"Variable {full} does not exist. Did you mean to set reuse=tf.AUTO_REUSE in the variable scope?"
            )
        element_type = wanted or as_dtype(scope.dtype)
        value, value_type = _initial_value(
            full, shape, element_type, initializer if initializer is not None else scope.initializer
        )
        resource = use_resource if use_resource is not None else scope.use_resource
        with get_default_graph().control_dependencies(None), name_scope(None):
            made = Variable(
                value, trainable=trainable, collections=collections, caching_device=caching_device,
                validate_shape=validate_shape,
                name=full, dtype=value_type, constraint=constraint or scope.constraint, use_resource=resource,
            )  # fmt: skip
        self.variables[full] = made
        _regularize(made, full, regularizer or scope.regularizer)
        return made

    def unique(self, prefix: str) -> str:
        """`prefix` in the current scope, numbered where such a scope was opened before."""
        base = f"{self.scope.name}/{prefix}" if self.scope.name else prefix
        if not self.opened.get(base):
            return prefix
        number = 1
        while self.opened.get(f"{base}_{number}"):
            number += 1
        return f"{prefix}_{number}"


def _fitting(found: Any, name: str, shape: Any, dtype: DType | None) -> Any:
    if shape is not None and not TensorShape(shape).is_compatible_with(found.shape):
        raise GraphValueError(
            f"Trying to share variable {name}, but specified shape {TensorShape(shape)} and found shape {found.shape}."
        )
    if dtype is not None and dtype is not found.dtype.base_dtype:
        raise GraphValueError(
            f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype "
            f"{found.dtype.base_dtype.name}."
        )
    return found


def _initial_value(name: str, shape: Any, dtype: DType, initializer: Any) -> tuple[Any, DType | None]:
    """The initial value, or the function that makes it, and the dtype to make it with."""
    if initializer is not None and not callable(initializer):
        if shape is not None:
            raise GraphValueError(f"variable {name}: do not give a shape when the initializer is a value")
        return initializer, None
    known = TensorShape(shape)
    if initializer is None:
        initializer = glorot_uniform() if dtype.is_floating else Zeros()
    elif isinstance(initializer, type):
        initializer = initializer()
    if known.is_fully_defined():
        return partial(initializer, known.as_list(), dtype=dtype), dtype
    if shape is None and not hasattr(initializer, "dtype"):
        return initializer, dtype  # a function of no arguments
    raise GraphValueError(f"Shape of a new variable ({name}) must be fully defined, but instead was {known}.")


def _regularize(variable: Any, name: str, regularizer: Any) -> None:
    if regularizer is not None:
        with get_default_graph().colocate_with(variable.op), name_scope(f"{name}/Regularizer/"):
            loss = regularizer(variable)
        if loss is not None:
            get_default_graph().add_to_collection("regularization_losses", loss)


def _store() -> _Store:
    items = get_default_graph().get_collection_ref(_KEY)
    if not items:
        items.append(_Store())
    store: _Store = items[0]
    return store


def get_variable(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return the variable of that name in the current scope: a new one, or an old one if the scope
    reuses.

    Arguments after the name, in TensorFlow's order: shape, dtype (float32), initializer
    (glorot_uniform; zeros for integers), regularizer, trainable, collections, ..., use_resource,
    constraint.

    Raises:
        GraphValueError: where TensorFlow raises ValueError.
    """
    store = _store()
    return store.get(store.scope, name, *args, **kwargs)


def get_variable_scope() -> VariableScope:
    """The current scope."""
    return _store().scope


@resource_variables_wanted.implement
def _resource_variables_wanted(use_resource: bool | None) -> bool:
    """Whether a new variable is a resource variable."""
    if use_resource is None:
        use_resource = get_variable_scope().use_resource
    return _resource_by_default[0] if use_resource is None else use_resource


_resource_by_default = [False]


def enable_resource_variables() -> None:
    """Make resource variables by default."""
    _resource_by_default[0] = True


def disable_resource_variables() -> None:
    """Make reference variables by default, as TensorFlow 1 does."""
    _resource_by_default[0] = False


@contextmanager
def variable_scope(
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Prefix the names of variables and nodes inside; share variables if `reuse` is True or
    AUTO_REUSE.

    A scope given as an object is entered again. `default_name`, made unique, is used if no name is
    given.

    Raises:
        GraphValueError: neither name nor default name.
    """
    if name_or_scope is None and default_name is None:
        raise GraphValueError("variable_scope needs a name, or a default name")
    store = _store()
    old = store.scope
    with ExitStack() as stack:
        if isinstance(name_or_scope, VariableScope):
            label, full, base = name_or_scope.name.split("/")[-1], name_or_scope.name, name_or_scope
        else:
            label = default_name or "" if name_or_scope is None else name_or_scope
            part = store.unique(label) if name_or_scope is None else name_or_scope
            full, base = (f"{old.name}/{part}" if old.name else part), old
        names = stack.enter_context(name_scope(label)) if auxiliary_name_scope and label else base.original_name_scope
        changes = {
            "initializer": initializer, "regularizer": regularizer, "dtype": dtype, "use_resource": use_resource,
            "constraint": constraint,
        }  # fmt: skip
        inherited = base.reuse or old.reuse
        store.scope = replace(
            base,
            name=full,
            reuse=reuse or inherited,
            original_name_scope=names,
            **{k: v for k, v in changes.items() if v is not None},
        )
        store.opened[full] = store.opened.get(full, 0) + 1
        try:
            yield store.scope
        finally:
            for name in store.opened:
                if name.startswith(f"{full}/"):
                    store.opened[name] = 0
            store.scope = old
