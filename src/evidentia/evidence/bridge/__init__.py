"""Bridge sampling: draws that exist, the density fitted to them, the bridge, and its halves."""
