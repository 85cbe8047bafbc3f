# %% [markdown]
# # How many groups are in the stream?
#
# **The question.** Rows keep arriving and fall into unlabelled groups. How many groups are there,
# and how many rows does it take to know? A good answer starts with few groups and adds more as the
# rows require, without being told when.
#
# The rows are simulated, so the answer is known: three Gaussian groups in the plane, two of which
# overlap.

# %%
import matplotlib.pyplot as plt
import numpy as np

import evidentia as ev
from evidentia.display.plots import COLORS, LINE_STYLES

generator = np.random.default_rng(4)
centres = np.array([[-1.0, 0.2], [0.5, 0.7], [0.9, -0.6]])
spreads = np.array([[0.45, 0.7], [0.6, 0.35], [0.35, 0.45]])
group = generator.choice(3, size=2_000, p=[0.4, 0.35, 0.25])
rows = centres[group] + spreads[group] * generator.standard_normal((2_000, 2))
rows = rows.astype(np.float32)

# %% [markdown]
# **The models** are mixtures of one to four Gaussians. `ev.ModelAverage` feeds them the same
# batches and updates their probabilities by Bayes' rule, from equal ones before the first row. The
# first batches are small, because the probabilities change most there.

# %%
onlines = {
    "1 group": ev.Online(ev.models.gaussian_mixture(1, num_features=2)),
    "2 groups": ev.Online(ev.models.gaussian_mixture(2, num_features=2)),
    "3 groups": ev.Online(ev.models.gaussian_mixture(3, num_features=2)),
    "4 groups": ev.Online(ev.models.gaussian_mixture(4, num_features=2)),
}
average = ev.ModelAverage(onlines)
ends = [10, 20, 50, 100, 150, 200, 250, 300, 400, 500, 700, 1_000, 1_400, 2_000]
shares = {name: [] for name in onlines}
print("  rows " + " ".join(f"{name:>10}" for name in onlines))
for start, end in zip([0, *ends], ends, strict=False):
    probabilities = average.update({"y": rows[start:end]}).probabilities
    for name, share in probabilities.items():
        shares[name].append(share)
    print(f"{end:6,} " + " ".join(f"{share:10.3f}" for share in probabilities.values()))

# %% alt="Left: rows and the three groups found. Right: probabilities of one to four groups"
plt.rc("axes.spines", right=False, top=False)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", dpi=120)
left.scatter(*rows[:1_000].T, s=4, color=COLORS[6], alpha=0.6, linewidths=0)
three = onlines["3 groups"]
weighted = three.weighted
draw = {name: values[weighted.log_weights.argmax()] for name, values in weighted.items()}
angle = np.linspace(0, 2 * np.pi, 100)
circle = np.stack([np.cos(angle), np.sin(angle)])
for mean, variance in zip(draw["means"], draw["variances"], strict=True):
    left.plot(*(mean[:, None] + 2 * np.sqrt(variance)[:, None] * circle), color=COLORS[0])
left.set_aspect("equal")
left.set(xlabel="first column (no unit)", ylabel="second column (no unit)")
left.set_title(
    "1,000 of the rows; one posterior draw, two σ", loc="left", fontsize="medium"
)
for name, color, style in zip(shares, COLORS, LINE_STYLES, strict=False):
    right.semilogx(
        ends, shares[name], style, color=color, marker="o", markersize=3, label=name
    )
right.set(xlabel="number of rows", ylabel="probability of that many groups")
right.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
plt.show()

# %% [markdown]
# With ten rows one group is enough, with a hundred two: a third would cost more than it explains.
# With two hundred the third is needed, and the fourth never is. No threshold was set: the evidence
# charges each group for its five parameters automatically. In nats, at the end:

# %%
for name, online in onlines.items():
    print(f"{name:>8}: {online.log_evidence:8.1f} ± {online.standard_error:.1f} nats")

# %% [markdown]
# ## What could mislead here
#
# - **Groups that are not Gaussian.** These are, by construction. A group of another shape is
#   described by several Gaussians, and with enough rows the evidence will ask for them: it then
#   counts Gaussians, not groups. On real data, expect the best number to grow with the rows.
# - **The prior.** A mean lies within a few standard deviations of zero, and a variance is of order
#   one. Standardise the columns, and note that a prior that allows much wider or more distant
#   groups makes each additional group more costly.
# - **Several modes.** A mixture with too many groups can use the extra one in many ways. Estimates
#   with few rows and four groups are the hardest on this page: their errors can be larger than
#   reported ([when it fails](../methods/sgais.md#when-it-fails)). Try other seeds before you trust
#   a close result, and look at `onlines["4 groups"].evidence()`: it warns if particles hardly
#   move.
# - **"No group was added for ten thousand rows"** does not mean "the stream has not changed": use
#   [change detection](change_in_a_series.md) for that.
