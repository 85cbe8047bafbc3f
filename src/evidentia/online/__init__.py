"""The evidence of a stream: its state, what is kept of the rows, and `Online`."""
