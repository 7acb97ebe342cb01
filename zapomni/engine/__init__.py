"""The memory engine: text in, right answers out."""

from zapomni.engine.engine import MemoryEngine, open_engine

__all__ = ["MemoryEngine", "open_engine"]
