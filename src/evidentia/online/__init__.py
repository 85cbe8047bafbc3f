"""The evidence of a stream: its state, the record of past rows, and `Online`."""

from evidentia.online.online import Online, OnlineUpdate

__all__ = ["Online", "OnlineUpdate"]
