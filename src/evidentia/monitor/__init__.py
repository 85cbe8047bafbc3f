"""Monitoring of a stream: change detection, model averaging and prediction."""
