"""All experiments, in the order of the papers."""

from experiments import (
    breast_cancer,
    distribution_shift,
    error_model,
    evidence_against_rows,
    jala_em_bounds,
    jala_em_outlook,
    kernel_trajectories,
    latent_features,
    nested_sampling_agreement,
    neural_network,
    passing_claims,
    polynomial_order,
    sensitivity,
    simple_estimators,
    step_size_bias,
)

EXPERIMENTS = {
    one.name: one
    for one in (
        *evidence_against_rows.EXPERIMENTS,
        distribution_shift.EXPERIMENT,
        *sensitivity.EXPERIMENTS,
        *nested_sampling_agreement.EXPERIMENTS,
        kernel_trajectories.EXPERIMENT,
        simple_estimators.EXPERIMENT,
        passing_claims.EXPERIMENT,
        breast_cancer.EXPERIMENT,
        error_model.EXPERIMENT,
        polynomial_order.EXPERIMENT,
        neural_network.EXPERIMENT,
        latent_features.EXPERIMENT,
        jala_em_bounds.EXPERIMENT,
        step_size_bias.EXPERIMENT,
        jala_em_outlook.EXPERIMENT,
    )
}
