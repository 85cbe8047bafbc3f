"""All experiments, in the order of the papers."""

from experiments import (
    breast_cancer,
    error_model,
    evidence_against_rows,
    latent_features,
    neural_network,
    polynomial_order,
    sensitivity,
)

EXPERIMENTS = {
    one.name: one
    for one in (
        *evidence_against_rows.EXPERIMENTS,
        *sensitivity.EXPERIMENTS,
        breast_cancer.EXPERIMENT,
        error_model.EXPERIMENT,
        polynomial_order.EXPERIMENT,
        neural_network.EXPERIMENT,
        latent_features.EXPERIMENT,
    )
}
