"""Scope paths from op names: an op's layer in the user's program.

jit(step)/jvp(block_3)/attn/dot_general             ->  ("forward", "block_3", "attn")
jit(step)/transpose(jvp(block_3))/attn/dot_general  ->  ("backward", "block_3", "attn")
jit(step)/jvp(jit(relu))                            ->  ("forward",): a call has the callee's name
jit(step)/Cell_0.scan/Cell_0/dot_general            ->  ("Cell_0",): a module is its method
jit(step)/Layer_0/Layer_0.attention/dot_general     ->  ("Layer_0", "attention")
jit(f)/while/body/closed_call/mlp/tanh              ->  ("loop", "mlp")
gradients/conv1/Conv2D_grad/Conv2DBackpropFilter    ->  ("backward", "conv1")
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

Path = tuple[str, ...]

FORWARD, BACKWARD = "forward", "backward"
INITIALIZERS = "initializers"
"""Ops that initialize a TensorFlow program's variables: they run once, not in a step."""
UNUSED = "unused"
"""Ops that neither the result nor a side effect depends on."""
_WRAPPER = re.compile(r"(\w+)\((.*)\)$", re.DOTALL)
# transformations, not layers: the layer is in parentheses
_PEELED = frozenset(("vmap", "pmap", "xmap", "remat", "checkpoint", "custom_jvp", "custom_vjp", "linearize"))
_DROPPED = frozenset(
    "~ body cond closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr checkpoint remat remat2 "
    "rematted_computation shard_map pjit jit body_jaxpr branch".split()
)
_LOOPS = frozenset(("while", "scan", "fori_loop"))
_GRADIENTS = re.compile(r"(gradients|gradient_tape|gradients_\d+)$")


def scope_path(op_name: str, *, is_node: bool = False) -> Path | None:
    """Return the scopes of an op, outermost first; None if its name does not determine them.

    `is_node`: the name is that of a TensorFlow node, whose scopes end before its last part; a JAX
    name ends in the primitive's. If an instruction has the names of several, "a;b", the first is
    used.
    """
    name = op_name if is_node else op_name.partition(";")[0]
    head, slash, last = name.rpartition("/")
    # The part after the last slash is not a scope: the ops of one scope share a cache entry.
    return _known_path(name if "(" in last or ")" in last else head + slash, is_node)


@lru_cache(maxsize=1 << 16)
def _known_path(name: str, is_node: bool) -> Path | None:
    parts = _split(name)
    if len(parts) < 2:
        return None
    if is_node:
        return _node_path(parts[:-1])
    if parts[0].startswith(("jit(", "pjit(", "pmap(")):
        return _jax_path(parts[1:-1], parts[-1])
    path: list[str] = []
    _extend(path, _node_path(parts[:-1]))
    return tuple(path)


def is_gradient(name: str) -> bool:
    """Whether a TensorFlow node is one that `tf.gradients` made."""
    return _GRADIENTS.match(name.partition("/")[0]) is not None


def _split(name: str) -> list[str]:
    """The parts between slashes, but for those within parentheses."""
    if "(" not in name:
        return name.split("/")
    parts, depth, start = [], 0, 0
    for k, letter in enumerate(name):
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth = max(0, depth - 1)
        elif letter == "/" and not depth:
            parts.append(name[start:k])
            start = k + 1
    parts.append(name[start:])
    return parts


def _jax_path(parts: list[str], last: str) -> Path:
    direction, _ = _strip_wrappers(last)
    path: list[str] = []
    for part in parts:
        turned, inner = _strip_wrappers(part)
        # a layer's backward pass may call a function named as forward: the outermost word counts
        direction = BACKWARD if BACKWARD in (direction, turned) else direction or turned
        _extend(path, inner.split("/"))
    while path and path[-1] == "loop":  # a loop is drawn as such: its content has no other scope
        path.pop()
    return (direction, *path) if direction else tuple(path)


def _extend(path: list[str], names: Iterable[str]) -> None:
    """Add what names say of scopes to a path."""
    for word in map(_word, names):
        if word and path and path[-1].startswith(f"{word}."):  # flax names the method of a module, then the module
            path[-1] = word
        elif word:
            path.append(word.removeprefix(f"{path[-1]}.") if path else word)


def _strip_wrappers(part: str) -> tuple[str, str]:
    """Return the direction by the wrappers of a part, and the name inside.

    ("backward", "f") of "transpose(jvp(f))".
    """
    direction = ""
    while (found := _WRAPPER.match(part)) is not None:
        wrapper, inner = found.groups()
        if wrapper == "transpose":
            direction = BACKWARD
        elif wrapper == "jvp":
            direction = direction or FORWARD
        elif wrapper not in _PEELED and wrapper not in ("jit", "pjit"):
            break
        part = inner
    return direction, part


def _word(name: str) -> str:
    if name in _LOOPS:
        return "loop"
    if name in _DROPPED or re.fullmatch(r"branch_\d+_fun", name):
        return ""
    return name.strip("_") or name


def _node_path(parts: list[str]) -> Path:
    """Return the scopes of a TensorFlow node; a gradient has those of its layer."""
    if is_gradient(parts[0]):
        inner = [p for p in parts[1:] if not p.endswith("_grad")]
        return (BACKWARD, *inner)
    return tuple(parts)
