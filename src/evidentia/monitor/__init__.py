"""Watching a stream: change detection, model averaging and prediction."""
