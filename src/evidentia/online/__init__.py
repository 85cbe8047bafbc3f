"""The evidence of a stream: its state, the record of past rows, and `Online`."""
