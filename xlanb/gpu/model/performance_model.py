"""Estimate the run time of a kernel, alone and with a producer fused into it.

Follows gpu_performance_model.h.

    model = PerformanceModel(gpu_device("a100"))
    model.instruction(i).exec_time          in quarters of a nanosecond
    model.times(producer, consumers)        unfused and fused, with the launches

A kernel reads, computes and writes. Reading is limited by bandwidth, by the number of blocks, and
by uncoalesced reads. Repeated reads come from a cache. Times are whole ticks of a quarter of a
nanosecond, as in XLA, so that priorities compare equally.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlanb.analysis.operand_use import is_elementwise
from xlanb.gpu.backend_config import fusion_config
from xlanb.gpu.devices import GpuDevice
from xlanb.gpu.model.alike import Alike, PairKey
from xlanb.gpu.model.cost_analysis import GpuCostAnalysis
from xlanb.gpu.model.fusible import is_input_fusible_reduction, is_triton_fusion, transposes_minor_dimension
from xlanb.gpu.model.fusion_analysis import EmitterKind, FusionAnalyses, bit_width
from xlanb.gpu.model.fusion_view import FusionView
from xlanb.gpu.model.launch import launch_of
from xlanb.gpu.model.run_time import (
    LAUNCH_OVERHEAD,
    NEVER,
    RunTime,
    Times,
    combined,
    compute_time,
    f32,
    read_time,
    rounded,
    seconds,
)
from xlanb.gpu.model.tiling import TileViolationError, Tiling, UntileableError, best_tiling, given_tiling, tiled_time
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import Shape, TupleShape


class PerformanceModel:
    """Estimates for a device, cached until an instruction changes."""

    def __init__(self, device: GpuDevice, analyses: FusionAnalyses | None = None) -> None:
        self.device = device
        self.analyses = analyses or FusionAnalyses(device)
        self.costs = GpuCostAnalysis(device)
        self._alone: dict[HloInstruction, RunTime] = {}
        self._fused: dict[HloInstruction, dict[HloInstruction, int]] = {}
        self.alike = Alike()
        self._tilings: dict[PairKey, Tiling | str] = {}

    # -- interface ---------------------------------------------------------------------------------

    def instruction(self, i: HloInstruction) -> RunTime:
        """Return the estimate for an instruction's kernel."""
        found = self._alone.get(i)
        if found is None:
            found = self._alone[i] = self._estimate(i)
        return found

    def fused_time(self, producer: HloInstruction, consumer: HloInstruction, *, keeps_producer: bool = False) -> int:
        """Return the time of the consumer's kernel with the producer fused into it.

        With `keeps_producer`, the kernel writes the producer's result too.
        """
        known = self._fused.setdefault(producer, {})
        found = known.get(consumer)
        if found is None:
            found = known[consumer] = self._estimate_fused(producer, consumer, keeps_producer)
        return found

    def times(self, producer: HloInstruction, consumers: Sequence[HloInstruction]) -> Times:
        """Return the times of a producer and some consumers, unfused and fused into each."""
        apart = LAUNCH_OVERHEAD * (len(consumers) + 1) + self.instruction(producer).exec_time
        together = LAUNCH_OVERHEAD * len(consumers)
        for c in consumers:
            apart += self.instruction(c).exec_time
            together += self.fused_time(producer, c)
        return Times(apart, together)

    def multi_output_times(self, producer: HloInstruction, consumer: HloInstruction) -> Times:
        """Return the times of a producer and a consumer, and of one kernel with both results."""
        apart = 2 * LAUNCH_OVERHEAD + self.instruction(producer).exec_time + self.instruction(consumer).exec_time
        return Times(apart, LAUNCH_OVERHEAD + self.fused_time(producer, consumer, keeps_producer=True))

    def known_consumers(self, producer: HloInstruction) -> dict[HloInstruction, int] | None:
        """Return the cached fused times of a producer, or None if there are none."""
        return self._fused.get(producer)

    def invalidate(self, i: HloInstruction) -> None:
        """Forget the times of an instruction that changes, and of its pairs."""
        self._alone.pop(i, None)
        self._fused.pop(i, None)
        for o in i.operands:
            source = o.operands[0] if o.opcode is O.GET_TUPLE_ELEMENT else o
            known = self._fused.get(source)
            if known is not None:
                known.pop(i, None)
        self.analyses.invalidate(i)

    # -- estimates ---------------------------------------------------------------------------------

    def tiling(self, producer: HloInstruction, consumer: HloInstruction) -> Tiling | str:
        """Return the best tiling of both as one Triton fusion, or why there is none.

        Its time is cached as the pair's.
        """
        key = self.alike.pair(producer, consumer)
        found = self._tilings.get(key)
        if found is None:
            found = self._tilings[key] = best_tiling(FusionView(producer, consumer), self.costs, self.device)
        if not isinstance(found, str):
            self._fused.setdefault(producer, {})[consumer] = found.time.exec_time
        return found

    def _tiled(self, fusion: HloInstruction) -> RunTime:
        """Return the time of a Triton fusion with its config's tile, or with the best one."""
        view, given = FusionView(fusion), given_tiling(fusion_config(fusion))
        if given is not None:
            try:
                time = tiled_time(view, *given, self.costs, self.device)
            except (UntileableError, TileViolationError):
                time = None
            if time is not None:
                return time
        best = best_tiling(view, self.costs, self.device)
        return NEVER if isinstance(best, str) else best.time

    def _estimate(self, i: HloInstruction) -> RunTime:
        if is_triton_fusion(i):
            return self._tiled(i)
        counts = self.costs.of(i)
        launch = launch_of(self.analyses.of(i))
        flops = int(counts.flops)
        coalesced = self._is_coalesced(i)
        read_time = bytes_read = 0
        for o in i.operands:
            total = self._operand_bytes(i, o)
            bytes_read += total
            read_time += self._read_time(o.shape, total, launch.blocks, coalesced)
        written = int(counts.output_bytes)
        compute_time = self._compute_time(flops, launch.blocks, launch.threads)
        return RunTime(flops, bytes_read, written, read_time, self._write_time(written), compute_time)

    def _estimate_fused(self, producer: HloInstruction, consumer: HloInstruction, keeps_producer: bool) -> int:
        of_producer, of_consumer = self.instruction(producer), self.instruction(consumer)
        if of_producer is NEVER or of_consumer is NEVER:
            return NEVER.exec_time
        uses = sum(u for o, u in zip(consumer.operands, self.costs.of(consumer).utilization, strict=True)
                   if _source(o) is producer)  # fmt: skip
        analysis = self.analyses.of(producer, consumer)
        launch = launch_of(analysis)
        flops = int(f32(f32(of_producer.flops) * f32(uses)) + of_consumer.flops)
        coalesced = self._is_coalesced(producer, consumer)
        read_time = 0
        for o in analysis.view.parameters:
            total = self._shared_bytes(producer, consumer, o)
            read_time += self._read_time(o.shape, total, launch.blocks, coalesced)
        write_time = of_consumer.write_time + (of_producer.write_time if keeps_producer else 0)
        return combined(self._compute_time(flops, launch.blocks, launch.threads), read_time + write_time)

    def _operand_bytes(self, i: HloInstruction, operand: HloInstruction) -> int:
        if operand not in i.operands:
            return 0
        return int(self.costs.of(i).operand_bytes[i.operands.index(operand)])

    def _shared_bytes(self, producer: HloInstruction, consumer: HloInstruction, operand: HloInstruction) -> int:
        """Return the bytes of an operand that a fusion reads; what both parts read counts once."""
        common = self._common_utilization(producer, operand, consumer) if operand in producer.operands else 0.0
        by_producer = self._operand_bytes(producer, operand) * f32(self._operand_utilization(consumer, producer))
        shared = rounded(f32(_bytes(operand.shape) * f32(common)))
        return rounded(f32(by_producer)) + self._operand_bytes(consumer, operand) - shared

    def _operand_utilization(self, i: HloInstruction, operand: HloInstruction) -> float:
        used = self.costs.of(i).utilization
        if is_multi_output(operand):
            return sum(u for o, u in zip(i.operands, used, strict=True) if o is not operand and _source(o) is operand)
        return used[i.operands.index(operand)] if operand in i.operands else 0.0

    def _common_utilization(self, producer: HloInstruction, operand: HloInstruction, consumer: HloInstruction) -> float:
        """Return how often both read an operand for the same element of the consumer."""
        if operand not in consumer.operands:
            return 0.0
        number = producer.operands.index(operand)
        if producer.opcode is O.FUSION:
            reads_in_place = is_elementwise_fusion(producer)
            if not reads_in_place and not self.costs.uses_elementwise_from_root(producer, number):
                return 0.0
        elif not is_elementwise(producer):
            return 0.0
        if consumer.opcode is not O.FUSION:
            return 1.0 if is_elementwise(consumer) else 0.0
        self.costs.of(consumer)
        parameters = consumer.fused_computation.parameters
        shared = parameters[consumer.operands.index(operand)]
        if is_multi_output(producer):
            numbers = [n for n, o in enumerate(consumer.operands) if o is not producer and _source(o) is producer]
        else:
            numbers = [consumer.operands.index(producer)]
        return sum(self.costs.common_utilization(shared, parameters[n]) for n in numbers)

    def _is_coalesced(self, producer: HloInstruction, consumer: HloInstruction | None = None) -> bool:
        """Whether adjacent threads read adjacent elements: no untiled minor-dimension transpose."""
        parts = (producer,) if consumer is None else (producer, consumer)
        kind = self.analyses.of(*parts).kind
        if kind is not EmitterKind.TRANSPOSE and any(_reads_across(p) for p in parts):
            return False
        if kind is not EmitterKind.REDUCTION or consumer is None:
            return True
        return not (is_input_fusible_reduction(producer) and is_input_fusible_reduction(consumer))

    def _read_time(self, shape: Shape, total: int, blocks: int, coalesced: bool) -> int:
        arch = self.device.architecture
        width = 4 if not shape.is_array else max(1, bit_width(shape) // 8)
        rate = 1.0 if coalesced else width / arch.dram_transaction_bytes
        return read_time(self.device, _bytes(shape), total, blocks, rate)

    def _write_time(self, written: int) -> int:
        return seconds(f32(f32(written) / int(self.device.bandwidth)))

    def _compute_time(self, flops: int, blocks: int, threads: int) -> int:
        return compute_time(self.device, flops, blocks, threads)


def is_multi_output(i: HloInstruction) -> bool:
    """Whether a fusion returns a tuple of results."""
    return i.opcode is O.FUSION and isinstance(i.shape, TupleShape)


def is_elementwise_fusion(fusion: HloInstruction) -> bool:
    """Whether a fusion of any kind contains only elementwise instructions."""
    return all(i.opcode is O.PARAMETER or is_elementwise(i) for i in fusion.fused_computation)


def _source(operand: HloInstruction) -> HloInstruction:
    return operand.operands[0] if operand.opcode is O.GET_TUPLE_ELEMENT else operand


def _reads_across(i: HloInstruction) -> bool:
    """Whether it transposes the minor dimension of something in memory."""
    inner: Iterable[HloInstruction] = i.fused_computation if i.opcode is O.FUSION else (i,)
    return any(transposes_minor_dimension(n) and not _is_made_in_place(n.operands[0]) for n in inner)


def _is_made_in_place(i: HloInstruction) -> bool:
    """Whether its elements come from a broadcast or iota."""
    while i.opcode not in (O.BROADCAST, O.IOTA):
        if len(i.operands) != 1 or not (i.opcode is O.BITCAST or is_elementwise(i)):
            return False
        i = i.operands[0]
    return True


def _bytes(shape: Shape) -> int:
    return 8 * len(shape.shapes) if isinstance(shape, TupleShape) else shape.byte_size
