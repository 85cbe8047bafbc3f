"""Fleets: the evidence of every model for every one of many data sets (`estimate_many`)."""

from evidentia.fleet.progress import FleetUpdate
from evidentia.fleet.record import FleetEvidence, FleetRecord
from evidentia.fleet.verb import estimate_many

__all__ = ["FleetEvidence", "FleetRecord", "FleetUpdate", "estimate_many"]
