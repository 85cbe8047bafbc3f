"""All experiments, in the order of the papers."""

from experiments import error_model, neural_network

EXPERIMENTS = {
    one.name: one
    for one in (
        error_model.EXPERIMENT,
        neural_network.EXPERIMENT,
    )
}
