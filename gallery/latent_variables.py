# %% [markdown]
# # How wide is the prior? A latent-variable model with its evidence
#
# **The question.** A logistic regression needs a prior of its weights. How wide should it be? Empirical Bayes says: as wide as makes the data
# most probable. The weights are then latent variables, to be integrated out, and the width is a parameter, to be chosen.
#
# The data are Wisconsin's breast cancer data, the original table (Wolberg and Mangasarian 1990, UCI): nine features of cells, graded from 1 to 10,
# and whether the tumour was malignant. Set `EVIDENTIA_DATA` to a folder with `breast-cancer-wisconsin.data`; otherwise scikit-learn fetches the table
# from OpenML (`breast-w`).

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax

import evidentia as ev
from evidentia.plot import COLORS

folder = os.environ.get("EVIDENTIA_DATA")
if folder:
    file = Path(folder) / "breast-cancer-wisconsin.data"
    table = np.genfromtxt(file, delimiter=",", missing_values="?")
    features, malignant = table[:, 1:10], table[:, 10] == 4
else:
    from sklearn.datasets import fetch_openml  # pip install scikit-learn

    features, malignant = fetch_openml("breast-w", version=1, as_frame=False, return_X_y=True)
    malignant = malignant == "malignant"
complete = np.isfinite(features).all(axis=1)
features, label = features[complete].astype(np.float32), malignant[complete].astype(np.int32)
features = (features - features.mean(axis=0)) / features.std(axis=0)
print(f"{len(label)} complete rows of {len(complete)}, {label.sum()} malignant; features standardised")

# %% [markdown]
# **The model**, as a NumPyro function. `width` is to be chosen, `weights` and `intercept` are latent.


# %%
def logistic(features, label):
    width = numpyro.param("width", 1.0, constraint=dist.constraints.positive)
    weights = numpyro.sample("weights", dist.Normal(0, width).expand([9]).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0, 5))
    numpyro.sample("label", dist.Bernoulli(logits=features @ weights + intercept).to_event(1), obs=label)


model = ev.latent.LatentModel.from_numpyro(logistic, parameters=["width"])
data = {"features": features, "label": label}

# %% [markdown]
# **The climb.** JALA-EM moves particles of the weights by Langevin steps and the width up the gradient of the evidence. Its weights correct what the
# steps get wrong, so that the log evidence of every width on the way is known. Two climbs, one from either side:

# %%
method = ev.latent.JALAEM(num_particles=500, step_size=5e-3, optimizer=optax.adam(0.01))
climbs = {start: method.fit(model, {"width": start}, data=data, num_steps=800) for start in (0.2, 5.0)}
for start, fit in climbs.items():
    print(f"from width {start}: to {fit.theta['width']:.2f}, log evidence {fit.log_evidence:.2f} nats")

# %% [markdown]
# **Another way to the same numbers.** With the width fixed this is a model like any other, and `ev.estimate` knows its evidence. A prior of
# width w on the weights is a prior of width one on the weights of features multiplied by w, so that one model does for all widths.


# %%
def fixed_width(x, y):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([9]).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0, 5))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights + intercept), obs=y)


fixed = ev.Model.from_numpyro(fixed_width)
widths = np.array([0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0], np.float32)
curve = [ev.estimate(fixed, {"x": width * features, "y": label}) for width in widths]
for width, evidence in zip(widths, curve, strict=True):
    climb = climbs[0.2 if width < 1 else 5.0].trajectory
    on_the_way = climb.log_evidence[np.abs(np.log(climb.theta["width"] / width)).argmin()]
    print(
        f"width {width:4.2f}: {evidence.log_evidence:7.2f} ± {evidence.standard_error:.2f} nats; on the climb {on_the_way:7.2f}"
    )

# %% alt="Log evidence against the prior's width: the two climbs of JALA-EM lie on the points of ev.estimate"
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained", dpi=120)
for (start, fit), color, style in zip(climbs.items(), COLORS, ("-", "--"), strict=False):
    path = fit.trajectory
    axes.plot(
        path.theta["width"], path.log_evidence, color=color, linestyle=style, label=f"JALA-EM from {start}"
    )
    axes.plot(fit.theta["width"], fit.log_evidence, "s", color=color, markersize=8)
axes.errorbar(
    widths,
    [e.log_evidence for e in curve],
    [2 * e.standard_error for e in curve],
    fmt="o",
    color="black",
    label="ev.estimate",
    zorder=3,
)
axes.set_xscale("log")
axes.set_xticks(widths, [f"{width:g}" for width in widths])
axes.minorticks_off()
axes.set_xlabel("width of the prior (standard deviations of a weight)")
axes.set_ylabel("log evidence (nats)")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# The climbs and the fixed widths agree to about a tenth of a nat along the whole way, not only at the top, though they are computed in different ways.
#
# **The answer, and what it leaves out.** A width that is chosen is one value of many that would do nearly as well. To know what the choice is worth,
# give the width a prior and integrate it out as well: that is the evidence to compare with other models.


# %%
def unknown_width(x, y):
    width = numpyro.sample("width", dist.LogNormal(0, 1))
    weights = numpyro.sample("weights", dist.Normal(0, width).expand([9]).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0, 5))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights + intercept), obs=y)


full = ev.estimate(ev.Model.from_numpyro(unknown_width), {"x": features, "y": label})
shares, width = np.exp(full.log_weights), full.posterior["width"]
low, middle, high = np.quantile(width, [0.05, 0.5, 0.95], weights=shares, method="inverted_cdf")
best = climbs[0.2]
print(
    f"width integrated out: log evidence {full.log_evidence:.2f} ± {full.standard_error:.2f} nats, {best.log_evidence - full.log_evidence:.2f} less than at the best width"
)
print(
    f"width given the data: {middle:.2f} (90% between {low:.2f} and {high:.2f}); chosen by the climbs: {best.theta['width']:.2f}"
)

# %% [markdown]
# ## What could mislead here
#
# - **A maximum is not an average.** The best width's evidence is higher than that of the model with an unknown width, and with many parameters in
#   θ it is much higher. Compare models by the integrated evidence, or by maxima over as many parameters.
# - **Haste.** The particles must keep up with the width. From the narrow side, where they have to spread out, a climb with three times the learning rate arrives
#   at the same width with a log evidence that is half a nat too low. The effective sample size of the particles hardly tells; another climb does:

# %%
hasty = ev.latent.JALAEM(num_particles=500, step_size=5e-3, optimizer=optax.adam(0.03))
fit = hasty.fit(model, {"width": 0.2}, data=data, num_steps=270)
print(
    f"in haste: width {fit.theta['width']:.2f}, log evidence {fit.log_evidence:.2f} nats, smallest ess {fit.trajectory.ess[1:].min():.2f}"
)
print(
    f"at ease: width {best.theta['width']:.2f}, log evidence {best.log_evidence:.2f} nats, smallest ess {best.trajectory.ess[1:].min():.2f}"
)

# %% [markdown]
# - **A climb that has not arrived** looks like one that has. Start from both sides.
# - **Collapse.** With a group of one or two weights of its own a width can run to zero, where the evidence has a second maximum, or none.
# - **Standardising** looks at the features of all rows before the first prediction. It does no harm to this comparison, as all models have the same
#   features; but "width one" means something only together with that scale.
# - **What was left out**: the sixteen rows with a missing grade, which may not be missing at random.
