"""Maximum marginal likelihood of latent-variable models, one file per method."""

from evidentia.latent.ipla import IPLA
from evidentia.latent.jala_em import JALAEM
from evidentia.latent.model import LatentModel
from evidentia.latent.momentum_pgd import MomentumPGD
from evidentia.latent.pgd import PGD
from evidentia.latent.result import LatentFit, LatentTrajectory
from evidentia.latent.sfla import SFLA
from evidentia.latent.soul import SOUL

__all__ = [
    "IPLA",
    "JALAEM",
    "PGD",
    "SFLA",
    "SOUL",
    "LatentFit",
    "LatentModel",
    "LatentTrajectory",
    "MomentumPGD",
]
