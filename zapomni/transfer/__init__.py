"""Memories in files: reading what other programs export, and writing and reading our own two formats.

Everything here is synchronous and works on iterators, one record at a time, so that a caller can stop between any
two of them. It knows files and formats, and neither the store nor the engine.
"""

from zapomni.transfer.formats import FORMATS, Format, read, sniff
from zapomni.transfer.records import Item, Problem, Record, Version

__all__ = ["FORMATS", "Format", "Item", "Problem", "Record", "Version", "read", "sniff"]
