"""Local variables: those of one row or group, integrated out of the likelihood."""

from evidentia.model.local.integrated import Integrated
from evidentia.model.local.packed import in_packs
from evidentia.model.local.quadrature import CHECKS
from evidentia.model.local.sites import Hidden, LocalSites

__all__ = ["CHECKS", "Hidden", "Integrated", "LocalSites", "in_packs"]
