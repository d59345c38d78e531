"""Dump directories of XLA and TensorFlow: how their files are named, what lies in them, and how to write such a directory."""

from xlanb.dump.names import DumpName, decode_name, encode_name
from xlanb.dump.reader import DumpFile, DumpListing, ModuleFiles, list_dump, read_hlo

__all__ = ["DumpFile", "DumpListing", "DumpName", "ModuleFiles", "decode_name", "encode_name", "list_dump", "read_hlo"]
