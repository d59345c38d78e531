"""Dump directories of XLA and TensorFlow: decode file names, read contents, write dumps."""

from xlanb.dump.names import DumpName, decode_name, encode_name
from xlanb.dump.reader import DumpFile, DumpListing, ModuleFiles, list_dump, read_hlo

__all__ = ["DumpFile", "DumpListing", "DumpName", "ModuleFiles", "decode_name", "encode_name", "list_dump", "read_hlo"]
