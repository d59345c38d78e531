"""`jit`: compile a Python function per signature of its arguments, and cache it."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xlanb.boundary import filter_traceback, filtered_traceback
from xlanb.cpu.executable import Executable
from xlanb.errors import ArgumentError
from xlanb.frontends.jax import has_static_arguments, jitted_with_static, static_arguments
from xlanb.frontends.mistakes import no_program
from xlanb.runtime.compiler import compiled
from xlanb.runtime.functions import as_tf_function, function_module
from xlanb.runtime.jit_cache import (
    ArrayCall,
    ArrayKey,
    CacheEntry,
    CacheInfo,
    JitCall,
    JitSignature,
    Key,
    argument_names,
    array_key,
)
from xlanb.runtime.program import verified

if TYPE_CHECKING:
    from xlanb.hlo import HloModule


class Jit:
    """A compiled function: one executable per signature of shapes and dtypes, made on first use.

    `cache_info()` shows how often it was compiled, and which argument was the reason.
    """

    def __init__(
        self, function: Callable[..., Any], static_argnums: Sequence[int] = (), static_argnames: Sequence[str] = ()
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        function = as_tf_function(function)
        has_static = bool(static_argnums or static_argnames)
        self._function = jitted_with_static(function, static_argnums, static_argnames) if has_static else function
        self._has_static = has_static_arguments(self._function)
        from xlanb.graph.foreign import is_foreign  # TensorFlow's graphs: not loaded to compile HLO

        self._is_foreign = is_foreign(function)
        self._names = argument_names(function)
        self._entries: dict[Key, CacheEntry] = {}
        self._by_arrays: dict[ArrayKey | None, ArrayCall] = {}  # the same for calls with only arrays
        self._hits = 0
        self._lock = threading.RLock()

    @property
    def function(self) -> Callable[..., Any]:
        """The function to compile, with its static arguments marked."""
        return self._function

    @filtered_traceback()
    def executable(self, *args: Any, **named: Any) -> Executable:
        """The executable for arguments like these."""
        return self._find(self._call(args, named), args, named).executable

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run; return the function's result, with jax.Arrays if an argument is one, else NumPy's.

        Inside a function that JAX traces (`jax.grad`, `jax.vmap`, `jax.jit`) it calls the function
        itself.
        """
        try:
            key, leaves = array_key(args, named)
            call = self._by_arrays.get(key)
            if call is None:
                return self._first_call(key, leaves, args, named)
            self._hits += 1
            return call(leaves, args, named)
        except BaseException as error:
            filter_traceback(error)
            raise

    def _first_call(
        self, key: ArrayKey | None, leaves: Sequence[Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        """The first call with arrays of these types, or (`key` None) with other arguments too."""
        call = self._call(args, named)
        if call.is_traced:
            return self._function(*args, **named)
        found = self._find(call, args, named)
        if key is not None and not self._has_static:
            self._by_arrays[key] = found.with_arrays(leaves)
        return found.run(args, named, call.leaves)

    def cache_info(self) -> CacheInfo:
        """How many calls found compiled code, and all compilations with their reasons."""
        with self._lock:
            entries = tuple(self._entries.values())
            name = getattr(self, "__name__", "") or str(getattr(self._function, "name", "function"))
            return CacheInfo(name, self._hits, len(entries), entries)

    def _call(self, args: tuple[Any, ...], named: dict[str, Any]) -> JitCall:
        if self._is_foreign:
            return JitCall.of_foreign(self._function, args, named)
        if not self._has_static:
            return JitCall.of(args, named, ())
        dynamic, static = static_arguments(self._function, args, named)
        for n, value in static:
            if not _is_hashable(value):
                name = self._names[n] if isinstance(n, int) and n < len(self._names) else n
                raise ArgumentError(
                    f"the static argument {name} is a {type(value).__name__}, which is not hashable: pass a hashable "
                    "value, such as a tuple"
                )
        return JitCall.of(*dynamic, static)

    def _find(self, call: JitCall, args: tuple[Any, ...], named: dict[str, Any]) -> CacheEntry:
        found = self._entries.get(call.key)
        if found is not None:
            self._hits += 1
            return found
        with self._lock:
            found = self._entries.get(call.key)
            if found is None:
                found = self._entries[call.key] = self._compile(call, args, named)
            return found

    def _compile(self, call: JitCall, args: tuple[Any, ...], named: dict[str, Any]) -> CacheEntry:
        begin = time.perf_counter()
        module = self._module(args, named)
        executable = compiled(verified(module))
        seconds = time.perf_counter() - begin
        signature = (
            JitSignature.of_foreign(call) if self._is_foreign else JitSignature.of(call, args, named, self._names)
        )
        why = signature.why([e.signature for e in self._entries.values()])
        return CacheEntry(signature, executable, module.calling is not None, why, seconds)

    def _module(self, args: tuple[Any, ...], named: dict[str, Any]) -> HloModule:
        """The module for such arguments."""
        if not self._is_foreign:
            return function_module(self._function, args, named)
        from xlanb.runtime.graph_program import foreign_module  # all of TensorFlow's ops: not loaded for JAX

        return foreign_module(self._function, args, named, freezes_weights=False)

    def __repr__(self) -> str:
        info = self.cache_info()
        last = f", the last for {info.entries[-1].why}" if info.misses > 1 else ""
        return f"<xlanb.jit of {info.name}: {info.misses} signature{'s' * (info.misses != 1)} compiled{last}>"


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Any:
    """Decorator: compile a function over arrays, of JAX or `xlanb.tf`, per signature, and cache it.

        @xlanb.jit
        def layer(params, x):
            return jax.nn.relu(x @ params["w"] + params["b"])

    A JAX function takes and returns the same as under `jax.jit`: pytrees of arrays. Results are
    NumPy arrays, or jax.Arrays if an argument is one. A function over `xlanb.tf` takes arrays, or
    what `np.asarray` converts to arrays, and returns arrays in the function's structure. Python in
    the function runs once per signature: it may branch on shapes and static arguments, not on
    values. `layer.executable(params, x)` is the Executable for such arguments, `layer.cache_info()`
    shows what was compiled and why.

    Args:
        function: The function to compile; a `jax.jit` object keeps its own static arguments.
        static_argnums: Positions of arguments that are compile-time constants; each value is
            compiled separately. JAX functions only.
        static_argnames: Their names.

    Raises:
        XlanbError: Raised by a call if the function cannot be traced or compiled.
    """
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    if function is None:
        return lambda f: Jit(f, numbers, names)
    if not callable(function):
        raise no_program(function)
    return Jit(function, numbers, names)


__all__ = ["Jit", "jit"]
