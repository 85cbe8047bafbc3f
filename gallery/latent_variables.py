# %% [markdown]
# # How wide is the prior? A latent-variable model with its evidence
#
# **The question.** A logistic regression needs a prior for its weights. How wide should it be?
# Empirical Bayes answers: as wide as makes the data most probable. The weights are then latent
# variables, which are integrated out, and the width is a parameter, which is chosen.
#
# The data are the original Wisconsin breast cancer data (Wolberg and Mangasarian 1990, UCI): nine
# features of cells, graded from 1 to 10, and whether the tumour was malignant. Set
# `EVIDENTIA_DATA` to a folder with `breast-cancer-wisconsin.data`; otherwise scikit-learn fetches
# the table from OpenML (`breast-w`).

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax

import evidentia as ev
from evidentia.display.plots import COLORS

folder = os.environ.get("EVIDENTIA_DATA")
if folder:
    file = Path(folder) / "breast-cancer-wisconsin.data"
    table = np.genfromtxt(file, delimiter=",", missing_values="?")
    x, malignant = table[:, 1:10], table[:, 10] == 4
else:
    from sklearn.datasets import fetch_openml  # pip install scikit-learn

    x, target = fetch_openml("breast-w", version=1, as_frame=False, return_X_y=True)
    malignant = target == "malignant"
complete = np.isfinite(x).all(axis=1)
x, y = x[complete].astype(np.float32), malignant[complete].astype(np.int32)
x = (x - x.mean(axis=0)) / x.std(axis=0)
print(f"{len(y)} complete rows of {len(complete)}, {y.sum()} malignant")

# %% [markdown]
# **The model** is a NumPyro function. `width` is the parameter; `weights` and `intercept` are
# latent.


# %%
def regression(x, y, width):
    weights = numpyro.sample("weights", dist.Normal(0, width).expand([9]).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0, 5))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights + intercept), obs=y)


def chosen_width(x, y):
    regression(x, y, numpyro.param("width", 1.0, constraint=dist.constraints.positive))


model = ev.latent.LatentModel.from_numpyro(chosen_width, parameters=["width"])

# %% [markdown]
# **The climb.** JALA-EM moves particles of the weights by Langevin steps, and the width along the
# gradient of the evidence. Importance weights correct the error of the steps, so the log evidence
# is known for every width along the path. Two climbs, one from each side:


# %%
def climb(start, learning_rate, num_steps):
    method = ev.latent.JALAEM(
        num_particles=500, step_size=5e-3, optimizer=optax.adam(learning_rate)
    )
    fit = method.fit(model, {"width": start}, data={"x": x, "y": y}, num_steps=num_steps)
    reached, least = fit.theta["width"], fit.trajectory.ess[1:].min()
    print(
        f"from width {start} to {reached:.2f}: log evidence {fit.log_evidence:.2f} nats, "
        f"effective sample size at least {least:.0%}"
    )
    return fit


rising = climb(0.2, learning_rate=0.01, num_steps=800)
falling = climb(5.0, learning_rate=0.01, num_steps=800)

# %% [markdown]
# **A check by another method.** With a fixed width this is an ordinary model, and `ev.estimate`
# computes its evidence. A prior of width w on the weights is equivalent to a prior of width one on
# the weights of features multiplied by w, so one model serves all widths.


# %%
def fixed_width(x, y):
    regression(x, y, width=1.0)


fixed = ev.Model.from_numpyro(fixed_width)
widths = np.array([0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0], np.float32)
curve = [ev.estimate(fixed, {"x": width * x, "y": y}) for width in widths]
values, errors = np.array([(one.log_evidence, one.standard_error) for one in curve]).T
for width, value, error in zip(widths, values, errors, strict=True):
    way = (rising if width < 1 else falling).trajectory
    passed = way.log_evidence[np.abs(np.log(way.theta["width"] / width)).argmin()]
    print(f"width {width:4.2f}: {value:7.2f} ± {error:.2f} nats; climbing {passed:7.2f}")

# %% alt="Log evidence against prior width: both climbs of JALA-EM lie on the ev.estimate points"
plt.rc("axes.spines", right=False, top=False)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained", dpi=120)
for fit, name, color, style in (
    (rising, "JALA-EM from 0.2", COLORS[0], "-"),
    (falling, "JALA-EM from 5", COLORS[1], "--"),
):
    way = fit.trajectory
    axes.plot(way.theta["width"], way.log_evidence, style, color=color, label=name)
    axes.plot(fit.theta["width"], fit.log_evidence, "s", color=color, markersize=8)
axes.errorbar(
    widths, values, 2 * errors, fmt="o", color="black", label="ev.estimate", zorder=3
)
axes.set_xscale("log")
axes.set_xticks(widths, [f"{width:g}" for width in widths])
axes.minorticks_off()
axes.set(xlabel="width of the prior (standard deviations)", ylabel="log evidence (nats)")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# The climbs and the fixed widths agree to about a tenth of a nat along the whole path, not only at
# the maximum, although they are computed in different ways.
#
# **The answer, and what it leaves out.** The best width is one, for these standardised features.
# But many other widths would do nearly as well. To account for them, give the width a prior and
# integrate it out as well: the result is the evidence to compare with other models.


# %%
def unknown_width(x, y):
    regression(x, y, numpyro.sample("width", dist.LogNormal(0, 1)))


full = ev.estimate(ev.Model.from_numpyro(unknown_width), {"x": x, "y": y})
shares, width = np.exp(full.weighted.log_weights), full.weighted["width"]
levels = np.quantile(width, [0.05, 0.5, 0.95], weights=shares, method="inverted_cdf")
loss = rising.log_evidence - full.log_evidence
print(f"width integrated out: {full.log_evidence:.2f} ± {full.standard_error:.2f} nats,")
print(
    f"{loss:.2f} less than at the best width; 5%, 50%, 95% of the width:", levels.round(2)
)

# %% [markdown]
# ## What could mislead here
#
# - **A maximum is not an average.** The evidence at the best width is higher than that of the
#   model with an unknown width, and much higher if θ has many parameters. Compare models by the
#   integrated evidence, or by maxima over the same number of parameters.
# - **Haste.** The particles must keep up with the width. From the narrow side, where they have to
#   spread out, a climb with three times the learning rate reaches the same width with a log
#   evidence that is half a nat too low. The effective sample size hardly shows it; another climb
#   does:

# %%
hasty = climb(0.2, learning_rate=0.03, num_steps=270)

# %% [markdown]
# - **A climb that has not converged** looks like one that has. Start from both sides.
# - **Collapse.** A width of only one or two weights can shrink to zero, where the evidence has a
#   second maximum, or none.
# - **Standardising** uses the features of all rows before the first prediction. This does not
#   affect the comparison, as all models have the same features; but "width one" has a meaning only
#   on that scale.
# - **What was left out**: the sixteen rows with a missing grade, which may not be missing at
#   random.
