"""The verbs that estimate, and their runs over arrays, sources and devices."""
