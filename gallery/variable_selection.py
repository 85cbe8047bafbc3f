# %% [markdown]
# # Which columns of a large table matter?
#
# **The question.** An engine misfires, and its sensors may predict when. The table has 141,691
# rows and 22 columns; which of them does a classifier need? Adding columns never makes the fit
# worse. It can make the evidence worse: each weight that the data do not need has a cost.
#
# The table is `ijcnn1`, from the challenge of the IJCNN 2001 conference (Prokhorov) in the form of
# Chang and Lin, who built the columns: `f1` to `f10` are zeros and a one, at the row's position in
# a cycle of ten, `f11` and `f12` are two measurements, and `f13` to `f22` are ten successive
# values of a third. Set `EVIDENTIA_DATA` to a folder with `ijcnn1.parquet` (columns `f1` to `f22`
# and `label`); otherwise the files are downloaded from the LIBSVM page.

# %%
import bz2
import io
import os
import urllib.request
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet

import evidentia as ev
from evidentia.display.plots import COLORS

names = [f"f{column}" for column in range(1, 23)]
folder = os.environ.get("EVIDENTIA_DATA")
if folder:
    table = pyarrow.parquet.read_table(Path(folder) / "ijcnn1.parquet")
    columns = np.stack([table[name].to_numpy() for name in names], axis=1)
    label = table["label"].to_numpy().astype(np.int32)
else:
    from sklearn.datasets import load_svmlight_files  # pip install scikit-learn

    origin = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
    files = [
        io.BytesIO(bz2.decompress(urllib.request.urlopen(origin + name).read()))
        for name in ("ijcnn1.bz2", "ijcnn1.t.bz2")
    ]
    train, train_label, test, test_label = load_svmlight_files(files, n_features=22)
    columns = np.concatenate([train.toarray(), test.toarray()])
    label = (np.concatenate([train_label, test_label]) > 0).astype(np.int32)
print(f"{len(label):,} rows, {label.mean():.1%} misfires")

# %% [markdown]
# **The model** is a softmax regression with two classes, whose weights have normal(0, 1) priors.
# The scale of a column therefore matters: it sets how large an effect the prior expects. All
# columns are standardised, so the prior expects one standard deviation to move the log odds, the
# difference of two weights, by about √2. The ten columns of the cycle sum to one in every row, so
# with an intercept one of them is redundant; a proper prior handles that, while maximum likelihood
# would not.

# %%
columns = ((columns - columns.mean(axis=0)) / columns.std(axis=0)).astype(np.float32)
cycle, level, window = names[:10], names[10:12], names[12:]


def evidence_of(chosen, scale=1.0):
    x = scale * columns[:, [names.index(name) for name in chosen]]
    return ev.estimate(ev.models.softmax_regression(len(chosen), 2), {"x": x, "y": label})


# %% [markdown]
# **Groups first.** Four sets of columns, and the case without columns, which needs no estimate:

# %%
sets = {
    "window": window,
    "window, levels": window + level,
    "all": names,
    "levels, cycle": level + cycle,
}
evidences = {name: evidence_of(chosen) for name, chosen in sets.items()}
print(ev.compare(evidences))
share = label.mean()
alone = len(label) * (share * np.log(share) + (1 - share) * np.log(1 - share))
print(f"the share of misfires alone, no columns: {alone:,.0f} nats")

# %% [markdown]
# Every group improves the evidence, by thousands of nats or nearly one thousand. Levels and cycle
# by themselves are worse than no columns at all: their weights cost some fifty nats and explain
# nothing. Yet together with the window they are worth five thousand. A test of each group by
# itself would have discarded them.
#
# **Then one by one**: how many nats are lost if a single column is left out? (The ten of the cycle
# count as one, because they are one measurement.)

# %%
without = {name: [other for other in names if other != name] for name in level + window}
without["cycle"] = sets["window, levels"]


def losses(which, scale):
    whole = evidence_of(names, scale).log_evidence
    return {name: whole - evidence_of(without[name], scale).log_evidence for name in which}


lost = losses(without, scale=1.0)
for name, nats in lost.items():
    print(f"without {name:>5}: {-nats:10.1f} nats")

# %% alt="Nats lost when one column is left out, for each column, on a logarithmic scale"
plt.rc("axes.spines", right=False, top=False)
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained", dpi=120)
axes.bar(list(lost), list(lost.values()), color=COLORS[0])
axes.set_yscale("log")
axes.set_ylim(bottom=10)
axes.set_ylabel("log evidence lost without it (nats)")
plt.show()

# %% [markdown]
# **The answer.** All of them are needed. The sixth value of the window, `f18`, is worth most, but
# even the least of the twelve, `f15`, is worth eighty nats: with 141,691 rows small effects are
# clear. How many rows did it take? The trajectory of an estimate has the evidence of the rows so
# far; for the cycle:

# %%
for rows in (500, 1_000, 2_000, 5_000, 10_000, 50_000):
    so_far = {name: one.trajectory.at(rows) for name, one in evidences.items()}
    gained = so_far["all"]["log_evidence"] - so_far["window, levels"]["log_evidence"]
    count = so_far["all"]["num_observations"]
    print(f"after {count:6,} rows the cycle is worth {gained:7.1f} nats")

# %% [markdown]
# ## What could mislead here
#
# **The prior.** A wider prior charges more for a column with little information. Standard
# deviations of a third and of three (or, equivalently, columns multiplied by them) instead of one:

# %%
weak = sorted(lost, key=lost.get)[:2]
for scale in (1 / 3, 3.0):
    for name, nats in losses(weak, scale).items():
        print(f"prior {scale:4.2f}, without {name:>5}: {-nats:10.1f} nats")

# %% [markdown]
# With this many rows it hardly matters.
#
# - **Columns that share information.** "Lost without it" asks about one column with all others
#   present. Of two columns with the same information, either can be left out at no cost, but not
#   both.
# - **Only linear effects.** The evidence is about columns in this model. A column that matters
#   only through products with another one would show nothing. Machines with Gaussian kernels are
#   known to classify this table far better than linear ones: all models on this page are wrong,
#   and the evidence still ranks them.
# - **Choosing among many.** Sixteen sets of columns were compared, of four million. The best of
#   many looks better than it is, by up to the log of how many were tried; this is negligible for
#   differences of a hundred nats, and decisive for one of three.
# - **Rows in order of time.** Rows are treated as independent given the columns. Successive rows
#   share nine of ten values of the window, so the table has less information than its number of
#   rows suggests, and the Bayes factors are overconfident.
