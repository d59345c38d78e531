"""Read and write HloModuleProto, XLA's binary form of a module, without TensorFlow."""

from xlanb.hlo.module import read_proto, write_proto
from xlanb.hlo.proto.reader import from_proto
from xlanb.hlo.proto.snapshot import HloSnapshot
from xlanb.hlo.proto.writer import to_proto

read_proto.implement(from_proto)
write_proto.implement(to_proto)

__all__ = ["HloSnapshot", "from_proto", "to_proto"]
