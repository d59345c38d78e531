"""Create and change fusion instructions, for fusion passes, dce and copy-insertion.

A fusion's computation has one parameter for each operand of the fusion, in order; these functions
keep the two consistent.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import TupleShape
from xlanb.shape.shape import tuple_of


def create_fusion(
    root: HloInstruction, kind: str, computation_name: str = "fused_computation", name: str = "fusion"
) -> HloInstruction:
    """Replace `root` by a fusion that contains only it.

        r = f32[8] add(a, b)
          =>  r.fusion = f32[8] fusion(a, b), kind=..., calls={p0, p1, ROOT r = add(p0, p1)}

    Args:
        root: the instruction to wrap; it is removed.
        kind: kLoop, kInput, kOutput or kCustom.
        computation_name: preferred name of the new computation.
        name: preferred name of the fusion.
    """
    return fuse_group((root,), kind, computation_name, name)


def fuse_group(
    group: Sequence[HloInstruction], kind: str, computation_name: str = "fused_computation", name: str = "fusion"
) -> HloInstruction:
    """Replace the first instruction of a group by a fusion that contains copies of them all.

        n = f32[8] negate(a)
        r = f32[8] add(n, b)
          =>  r.fusion = f32[8] fusion(b, a), kind=..., calls={
                p0, p1, n = negate(p1), ROOT r = add(n, p0)}

    Args:
        group: every instruction except the first is an operand of an earlier one. Those that others
            use too stay for them; the rest is removed.
        kind: kLoop, kInput, kOutput or kCustom.
        computation_name: preferred name of the new computation.
        name: preferred name of the fusion.
    """
    root = group[0]
    parent = root.parent
    operands = {root: None}  # in the order that fusing one instruction after the other would give
    for i in group:
        del operands[i]
        operands.update(dict.fromkeys(i.operands))
    fused = parent.module.add_computation(computation_name, execution_thread=parent.execution_thread)
    inside = {o: add_parameter(fused, n, o) for n, o in enumerate(operands)}
    for i in reversed(group):
        inside[i] = fused.clone_instruction(i, [inside[o] for o in i.operands])
    fused.set_root(inside[root])
    fusion = parent.add(HloOpcode.FUSION, tuple(operands), root.shape, name=name, like=root, kind=kind, calls=fused)
    parent.replace(root, fusion)
    if fusion.sharding:
        parent.update(fusion, sharding="")
    return fusion


def add_parameter(fused: HloComputation, number: int, operand: HloInstruction) -> HloInstruction:
    """Add the parameter of a fused computation for an operand of the fusion."""
    return fused.add_parameter(number, operand.shape)


def fuse_into(fusion: HloInstruction, producer: HloInstruction) -> HloInstruction:
    """Copy `producer`, an operand of `fusion`, into the fusion; return the copy.

        p = f32[8] negate(x)
        fusion(p), calls={p0, ROOT add(p0, p0)}
          =>  fusion(x), calls={p0, p = negate(p0), ROOT add(p, p)}

    `producer` itself stays for its other users; without any it is dead, and the caller removes it.
    """
    operands = fusion.operands
    numbers: dict[HloInstruction, int] = {}
    added: list[HloInstruction] = []
    for o in producer.operands:
        if o not in numbers:
            if o.uses_by(fusion):
                numbers[o] = operands.index(o)
            else:
                numbers[o] = len(operands) + len(added)
                added.append(o)
    number = operands.index(producer)
    inside = [numbers[o] for o in producer.operands]
    copy = fusion.fused_computation.expand_parameter(number, producer, inside, [o.shape for o in added])
    fusion.parent.exchange_operand(fusion, number, added)
    return copy


def fuse_consumer(fusion: HloInstruction, consumer: HloInstruction) -> HloInstruction:
    """Move `consumer`, the only user of `fusion`, into it as its new root; return the copy inside.

    f = f32[8] fusion(x), calls={p0, ROOT n = negate(p0)}
    r = f32[8] add(f, y)
      =>  f = f32[8] fusion(x, y), calls={p0, p1, n = negate(p0), ROOT add(n, p1)}
    """
    fused, parent = fusion.fused_computation, fusion.parent
    inside = dict(zip(fusion.operands, fused.parameters, strict=True)) | {fusion: fused.root}
    operands = list(fusion.operands)
    for o in dict.fromkeys(consumer.operands):
        if o not in inside:
            inside[o] = add_parameter(fused, len(operands), o)
            operands.append(o)
    copy = fused.clone_instruction(consumer, tuple(inside[o] for o in consumer.operands))
    fused.set_root(copy)
    parent.set_operands(fusion, operands)
    parent.update(fusion, shape=consumer.shape)
    parent.replace(consumer, fusion)
    return copy


def drop_unused_operands(fusion: HloInstruction) -> bool:
    """Remove operands whose parameter has no user inside; return whether there were any."""
    unused = {p.parameter_number for p in fusion.fused_computation.parameters if p.is_dead}
    for o in _drop_operands(fusion, unused) if unused else ():
        fusion.parent.remove_dead(o)
    return bool(unused)


def _drop_operands(fusion: HloInstruction, numbers: set[int]) -> list[HloInstruction]:
    """Remove the parameters and operands with these numbers from a fusion."""
    fused, given = fusion.fused_computation, fusion.operands
    first, parameters = min(numbers), fused.parameters
    for n in sorted(numbers):
        fused.remove(parameters[n])
    fused.renumber_parameters(first)
    fusion.parent.set_operands(
        fusion, [*given[:first], *(o for n, o in enumerate(given[first:], first) if n not in numbers)]
    )
    return [given[n] for n in sorted(numbers)]


def drop_unused_outputs(fusion: HloInstruction) -> bool:
    """Remove unused elements of a fusion's result tuple; return whether there were any.

    If one element is left, it becomes the result itself.
    """
    shape, root = fusion.shape, fusion.fused_computation.root
    if not isinstance(shape, TupleShape) or root.opcode is not HloOpcode.TUPLE or fusion.is_root:
        return False
    if any(not _is_free_access(u) for u in fusion.users) or fusion.get("output_to_operand_aliasing"):
        return False
    used = sorted({u.tuple_index for u in fusion.users})
    if not used or len(used) == len(shape.shapes):
        return False
    fused = fusion.fused_computation
    if len(used) == 1:
        fused.set_root(root.operands[used[0]])
        fusion.parent.update(fusion, shape=shape.shapes[used[0]])
        for u in fusion.users:
            fusion.parent.replace(u, fusion)
    else:
        kept = tuple(root.operands[n] for n in used)
        new_shape = tuple_of(shape.shapes[n] for n in used)
        fused.set_root(fused.add(HloOpcode.TUPLE, kept, new_shape, like=root))
        fusion.parent.update(fusion, shape=new_shape)
        for u in fusion.users:
            fusion.parent.update(u, attributes={"index": used.index(u.tuple_index)})
    fused.remove_dead(root)
    return True


def _is_free_access(user: HloInstruction) -> bool:
    """Whether it is a get-tuple-element without control dependencies."""
    return user.opcode is HloOpcode.GET_TUPLE_ELEMENT and not user.control_predecessors and not user.control_successors


def merge_fusion(fusion: HloInstruction, producer: HloInstruction) -> None:
    """Copy the body of the fusion `producer`, an operand of `fusion`, into `fusion`.

        p = f32[8] fusion(x), calls={p0, ROOT n = negate(p0)}
        fusion(p), calls={p0, ROOT add(p0, p0)}
          =>  fusion(x), calls={p0, n = negate(p0), ROOT add(n, n)}

    Operands are in the order that fusing the instructions one by one, root first, would give.
    `producer`, which must have one result, stays for its other users; without any it is dead, and
    the caller removes it.
    """
    fused, parent, inner = fusion.fused_computation, fusion.parent, producer.fused_computation
    inside: dict[HloInstruction, HloInstruction] = dict(zip(fusion.operands, fused.parameters, strict=True))
    number = fusion.operands.index(producer)
    parameter = inside.pop(producer)
    added, moved = _operands_of_merge(fusion, producer)
    for n, o in enumerate(added, len(fusion.operands)):
        inside[o] = add_parameter(fused, n, o)
    copies = {p: inside[o] for p, o in zip(inner.parameters, producer.operands, strict=True) if o in inside}
    for i in moved:
        copies[i] = fused.clone_instruction(i, tuple(copies[o] for o in i.operands))
    fused.replace_uses(parameter, copies[inner.root])
    fused.remove(parameter)
    fused.renumber_parameters(number)
    parent.exchange_operand(fusion, number, added)


def _operands_of_merge(
    fusion: HloInstruction, producer: HloInstruction
) -> tuple[list[HloInstruction], list[HloInstruction]]:
    """The operands that the merge adds to `fusion`, and the live instructions that move."""
    inner = producer.fused_computation
    outside = dict(zip(inner.parameters, producer.operands, strict=True))
    # The operands as fusing the instructions one by one would order them; a dict keeps the order.
    operands = dict.fromkeys(outside.get(inner.root, inner.root) if o is producer else o for o in fusion.operands)
    moved = []
    for i in reversed(inner.post_order()):
        if i in operands and i not in outside:
            del operands[i]
            operands.update(dict.fromkeys(outside.get(o, o) for o in i.operands))
            moved.append(i)
    return [o for o in operands if o not in fusion.operands], moved[::-1]


def fuse_into_multi_output(fusion: HloInstruction, other: HloInstruction) -> None:
    """Move `other`, an operand or sibling of `fusion`, into it and add its result to the outputs.

        n = f32[8] negate(x)
        f = f32[8] fusion(n), calls={p0, ROOT exp(p0)}
        ... = add(n, f)
          =>  f = (f32[8], f32[8]) fusion(x), calls={
                p0, n = negate(p0), e = exp(n), ROOT tuple(e, n)}
              ... = add(f#1, f#0)

    `other` is removed. A fusion is moved with all its results; results that only `fusion` uses are
    dropped.
    """
    merge = _MultiOutputMerge(fusion, other)
    merge.move()
    merge.rewire()


class _MultiOutputMerge:
    """One merge into a multi-output fusion."""

    def __init__(self, fusion: HloInstruction, other: HloInstruction) -> None:
        self.fusion, self.other = fusion, other
        self.parent = fusion.parent
        is_fusion = other.opcode is HloOpcode.FUSION
        order = other.fused_computation.post_order() if is_fusion else [other]
        root = other.fused_computation.root if is_fusion else other
        parameters = other.fused_computation.parameters if is_fusion else []
        self.outside: dict[HloInstruction, HloInstruction] = dict(zip(parameters, other.operands, strict=False))
        self.is_tuple = is_fusion and root.opcode is HloOpcode.TUPLE
        self.body = [i for i in order if i not in self.outside and not (self.is_tuple and i is root)]
        self.given = self._results_of(root)

    def _results_of(self, root: HloInstruction) -> dict[HloInstruction, HloInstruction]:
        """The results of `other`: itself or each get-tuple-element of it, with the inner value."""
        if not self.is_tuple:
            return {self.other: root}
        elements = [u for u in self.other.users if u.opcode is HloOpcode.GET_TUPLE_ELEMENT]
        return {u: root.operands[u.tuple_index] for u in elements}

    def move(self) -> None:
        """Clone the body into the fusion, and give the fusion its operands."""
        fusion, fused = self.fusion, self.fusion.fused_computation
        kept = dict.fromkeys(self._source(self.given.get(o, o)) for o in fusion.operands)
        new_roots = {inner for o, inner in self.given.items() if self._is_used_outside(o)}
        operands, self.results = dict(kept), list[HloInstruction]()
        moved = []
        for i in reversed(self.body):
            if i in operands or i in new_roots:
                operands.pop(i, None)
                operands.update(dict.fromkeys(self._source(o) for o in i.operands))
                moved.append(i)
                if i in new_roots:
                    self.results.append(i)
        inside: dict[HloInstruction, HloInstruction] = {}
        for o, p in zip(fusion.operands, fused.parameters, strict=True):
            inside.setdefault(o, p)
        for o in operands:
            if o not in inside:
                inside[o] = add_parameter(fused, len(fused.parameters), o)
        copies = {p: inside[o] for p, o in self.outside.items() if o in inside}
        for i in reversed(moved):
            copies[i] = fused.clone_instruction(i, tuple(copies.get(o) or inside[o] for o in i.operands))
        for o, inner in self.given.items():
            if o in inside:
                fused.replace_uses(inside[o], copies[inner])
        self.copies = copies
        self._set_operands(list(operands), inside)

    def _source(self, i: HloInstruction) -> HloInstruction:
        return self.outside.get(i, i)

    def _is_used_outside(self, given: HloInstruction) -> bool:
        return given.is_root or any(u is not self.fusion for u in given.users)

    def _set_operands(self, operands: list[HloInstruction], inside: dict[HloInstruction, HloInstruction]) -> None:
        """Keep the parameters of the remaining operands, in order."""
        fused, numbers = self.fusion.fused_computation, {}
        for n, o in enumerate(operands):
            numbers[inside[o]] = n
        for p in fused.parameters:
            if p not in numbers:
                fused.remove(p)
        for p, n in numbers.items():
            fused.update(p, attributes={"parameter_number": n})
        self.parent.set_operands(self.fusion, operands)

    def rewire(self) -> None:
        """Set the fusion's results, and make the users of `other` use them."""
        fusion, fused, parent = self.fusion, self.fusion.fused_computation, self.parent
        users, was_root, old = fusion.users, fusion.is_root, fusion.fused_computation.root
        is_single = old.opcode is not HloOpcode.TUPLE
        elements = [old] if is_single else list(old.operands)
        places = {}
        for i in self.results:
            copy = self.copies[i]
            if copy not in elements:
                elements.append(copy)
            places[i] = elements.index(copy)
        if len(elements) > 1 or not is_single:
            shape = tuple_of(e.shape for e in elements)
            fused.set_root(fused.add(HloOpcode.TUPLE, tuple(elements), shape))
            if not is_single:
                fused.remove(old)
            parent.update(fusion, shape=shape, sharding="")
        if is_single:
            self._replace(fusion, self._element(old, 0), users, was_root)
        for o, inner in self.given.items():
            if inner in places:
                self._replace(o, self._element(o, places[inner]), o.users, o.is_root)
        for o in self.given:
            if o is not self.other:
                parent.remove(o)
        called = self.other.called_computations if self.other.opcode is HloOpcode.FUSION else ()
        parent.remove(self.other)
        for c in called:
            if not c.module.callers(c):
                c.module.remove_computation(c)

    def _element(self, like: HloInstruction, index: int) -> HloInstruction:
        return self.parent.add(HloOpcode.GET_TUPLE_ELEMENT, (self.fusion,), like.shape, like=like, index=index)

    def _replace(
        self, old: HloInstruction, new: HloInstruction, users: tuple[HloInstruction, ...], was_root: bool
    ) -> None:
        for u in users:
            for n, o in enumerate(u.operands):
                if o is old:
                    self.parent.replace_operand(u, n, new)
        if was_root:
            self.parent.set_root(new)
