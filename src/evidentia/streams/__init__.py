"""Many streams at once: `OnlineFleet` and `ChangeDetectorFleet`."""

from evidentia.streams.change_fleet import ChangeDetectorFleet
from evidentia.streams.intake import FleetStep
from evidentia.streams.online_fleet import OnlineFleet
from evidentia.streams.stream import Stream

__all__ = ["ChangeDetectorFleet", "FleetStep", "OnlineFleet", "Stream"]
