"""Live memory over time: of a function, of its forward products and of its gradient."""

from chainrule.derive.memory_timeline.timeline import Holder, Timeline, memory, peak_bytes

__all__ = ["Holder", "Timeline", "memory", "peak_bytes"]
