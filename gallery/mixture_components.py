# %% [markdown]
# # How many groups are in the stream?
#
# **The question.** Rows keep coming, and fall into groups that nobody has labelled. How many groups are there, and how many rows does it take to know? A good
# answer begins with few groups and adds some as the rows demand them, without being told when.
#
# The rows are simulated, so that we know the answer: three Gaussian groups in the plane, of which two overlap.

# %%
import matplotlib.pyplot as plt
import numpy as np

import evidentia as ev
from evidentia.plot import COLORS, LINE_STYLES

generator = np.random.default_rng(4)
centres = np.array([[-1.0, 0.2], [0.5, 0.7], [0.9, -0.6]])
spreads = np.array([[0.45, 0.7], [0.6, 0.35], [0.35, 0.45]])
group = generator.choice(3, size=2_000, p=[0.4, 0.35, 0.25])
rows = (centres[group] + spreads[group] * generator.standard_normal((2_000, 2))).astype(np.float32)

# %% [markdown]
# **The models** are mixtures of one to four Gaussians. `ev.ModelAverage` feeds them the same batches and keeps their probabilities, which are those of Bayes' rule
# with equal probabilities before the first row. Batches are small at first, where something is to be seen.

# %%
names = {count: f"{count} group{'s' * (count > 1)}" for count in (1, 2, 3, 4)}
onlines = {name: ev.Online(ev.models.gaussian_mixture(count, 2), seed=1) for count, name in names.items()}
average = ev.ModelAverage(onlines)
ends = [10, 20, 50, 100, 150, 200, 250, 300, 400, 500, 700, 1_000, 1_400, 2_000]
updates = [average.update({"y": rows[start:end]}) for start, end in zip([0, *ends], ends, strict=False)]
print("  rows" + "".join(f"{name:>11}" for name in names.values()))
for update in updates:
    print(
        f"{update.num_observations:6,}" + "".join(f"{share:11.3f}" for share in update.probabilities.values())
    )

# %% alt="Left: the rows, and the three groups found. Right: the probability of one to four groups against the number of rows"
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", dpi=120)
left.scatter(*rows[:1_000].T, s=4, color=COLORS[6], alpha=0.6, linewidths=0)
online = onlines["3 groups"]
best = np.argmax(online.log_weights)
means, variances = online.posterior["means"][best], online.posterior["variances"][best]
angle = np.linspace(0, 2 * np.pi, 100)
for mean, variance in zip(means, variances, strict=True):
    left.plot(
        *(mean[:, None] + 2 * np.sqrt(variance)[:, None] * [np.cos(angle), np.sin(angle)]), color=COLORS[0]
    )
left.set_aspect("equal")
left.set_xlabel("first column (no unit)")
left.set_ylabel("second column (no unit)")
left.set_title("1,000 of the rows; one posterior draw, two σ", loc="left", fontsize="medium")
shares = np.array([list(update.probabilities.values()) for update in updates])
for share, name, color, style in zip(shares.T, average.probabilities, COLORS, LINE_STYLES, strict=False):
    right.plot(ends, share, color=color, linestyle=style, marker="o", markersize=3, label=name)
right.set_xscale("log")
right.set_xlabel("number of rows")
right.set_ylabel("probability of that many groups")
right.legend(frameon=False, loc="center left")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# With few rows two groups are enough, and a third would cost more than it explains; later the third is needed, and the fourth never is. Nobody had to say
# when: the evidence charges each group for its five parameters by itself. In nats, at the end:

# %%
print(ev.compare({name: online.evidence() for name, online in onlines.items()}))

# %% [markdown]
# ## What could mislead here
#
# - **Groups that are not Gaussian.** These are, by construction. A group of another shape is described by several Gaussians, and with enough rows the evidence will
#   ask for them: then it counts Gaussians, not groups. On real rows expect the best number to grow with the rows.
# - **The prior.** A mean lies within a few standard deviations of zero, and a variance is of order one. Standardise the columns, and mind that a prior which allows
#   much wider groups, or groups much farther apart, makes each further group dearer.
# - **Several modes.** A mixture with too many groups can spend the extra one in many ways. Estimates with few rows and four groups are the hardest on this page:
#   their errors can be larger than those reported ([when it fails](../methods/sgais.md#when-it-fails)). Try other seeds before trusting a close race.
# - **"No group was added for ten thousand rows"** is not "the stream has not changed": for that there is [change detection](change_in_a_series.md).
