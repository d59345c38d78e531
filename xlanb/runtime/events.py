"""TensorBoard's event files: the messages of summaries and events, and the file format.

Based on tensorflow/core/framework/{summary,step_stats}.proto, tensorflow/core/util/event.proto and
the record format of lib/io/record_writer.cc.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from xlanb.graph.saved_model.crc32c import crc32c, masked
from xlanb.protos import Schema
from xlanb.runtime.step_stats import StepStats

_TABLE = """
message Event
  1 wall_time double
  2 step int64
  3 file_version string (what)
  4 graph_def bytes (what)
  5 summary Summary (what)
  8 tagged_run_metadata TaggedRunMetadata (what)
  9 meta_graph_def bytes (what)
message TaggedRunMetadata
  1 tag string
  2 run_metadata bytes
message Summary
  1 value Value*
message Value
  1 tag string
  7 node_name string
  9 metadata SummaryMetadata
  2 simple_value float (value)
  4 image Image (value)
  5 histo HistogramProto (value)
  6 audio Audio (value)
  8 tensor TensorProto (value)
message SummaryMetadata
  1 plugin_data PluginData
  2 display_name string
  3 summary_description string
message PluginData
  1 plugin_name string
  2 content bytes
message HistogramProto
  1 min double
  2 max double
  3 num double
  4 sum double
  5 sum_squares double
  6 bucket_limit double*
  7 bucket double*
message Image
  1 height int32
  2 width int32
  3 colorspace int32
  4 encoded_image_string bytes
message Audio
  1 sample_rate float
  2 num_channels int64
  3 length_frames int64
  4 encoded_audio_string bytes
  5 content_type string
message TensorProto
  1 dtype int32
  2 tensor_shape TensorShapeProto
  8 string_val bytes*
message TensorShapeProto
  2 dim Dim*
message Dim
  1 size int64
message RunMetadata
  1 step_stats StepStatsProto
message StepStatsProto
  1 dev_stats DeviceStepStats*
message DeviceStepStats
  1 device string
  2 node_stats NodeExecStats*
message NodeExecStats
  1 node_name string
  2 all_start_micros int64
  3 op_start_rel_micros int64
  4 op_end_rel_micros int64
  5 all_end_rel_micros int64
  6 memory AllocatorMemoryUsed*
  7 output NodeOutput*
  8 timeline_label string
  9 scheduled_micros int64
  10 thread_id uint32
message AllocatorMemoryUsed
  1 allocator_name string
  2 total_bytes int64
  3 peak_bytes int64
  4 live_bytes int64
message NodeOutput
  1 slot int32
"""
DT_STRING = 7


@cache
def messages() -> Schema:
    """The message classes, by their names in the table."""
    return Schema("xlanb.tensorboard", _TABLE)


def run_metadata_bytes(stats: StepStats) -> bytes:
    """A RunMetadata message with the statistics of one run."""
    made = messages().RunMetadata()
    for device in stats.dev_stats:
        put = made.step_stats.dev_stats.add(device=device.device)
        for node in device.node_stats:
            _add_node(put, node)
    data: bytes = made.SerializeToString()
    return data


def _add_node(device: Any, node: Any) -> None:
    names = ("all_start_micros", "op_start_rel_micros", "op_end_rel_micros", "all_end_rel_micros")
    times = {name: int(getattr(node, name)) for name in (*names, "scheduled_micros")}
    put = device.node_stats.add(
        node_name=node.node_name,
        timeline_label=node.timeline_label,
        thread_id=max(0, int(node.thread_id)) % 2**32,
        **times,
    )
    for used in node.memory:
        put.memory.add(
            allocator_name=used.allocator_name,
            total_bytes=used.total_bytes,
            peak_bytes=used.peak_bytes,
            live_bytes=used.live_bytes,
        )
    for output in node.output:
        put.output.add(slot=output.slot)


class EventFile:
    """A file events.out.tfevents.TIME.HOST.SUFFIX in a new or existing folder; thread-safe.

    Raises:
        OSError: The folder or the file cannot be created.
    """

    def __init__(self, folder: str | Path, suffix: str = "") -> None:
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        self.path = place / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}{suffix}"
        self._lock = threading.Lock()
        self._file: BinaryIO | None = self.path.open("ab")
        if self._file.tell() == 0:
            self.write(messages().Event(wall_time=time.time(), file_version="brain.Event:2"))

    def write(self, event: Any) -> None:
        """Append an Event message; a closed file is opened again."""
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        record = b"".join((length, _checked(length), data, _checked(data)))
        with self._lock:
            if self._file is None:
                self._file = self.path.open("ab")
            self._file.write(record)

    def flush(self) -> None:
        """Write what is buffered."""
        with self._lock:
            if self._file is not None:
                self._file.flush()

    def close(self) -> None:
        """Write what is buffered and close the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def _checked(data: bytes) -> bytes:
    return struct.pack("<I", masked(crc32c(data)))
