# %% [markdown]
# # Does the second drug give more sleep?
#
# **The question.** Ten patients took two sleeping drugs, on different nights; how many hours of
# sleep did each add? "Student" (1908) made his t test of these numbers. Is there a difference, how
# large is it, and what does one write in a paper?
#
# Each patient had both drugs, so the rows are pairs: what counts is the difference in one person.

# %%
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist

import evidentia as ev

drug1 = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
drug2 = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
difference = drug2 - drug1
print(f"differences: {', '.join(f'{hours:.1f}' for hours in difference)} hours")
sleep = ev.bf.t_test(drug2, drug1, paired=True)
print(sleep)

# %% [markdown]
# The effect size δ is the mean difference in standard deviations. Under H0 it is zero; under H1 it
# has a Cauchy prior of width √2/2, the default of BayesFactor and JASP: half of it lies within
# 0.71 of zero. The data are 17 times as probable under H1 as under H0.

# %% alt="Prior and posterior of the effect size; at zero the posterior is far lower."
sleep.plot()
plt.show()

# %% [markdown]
# The two points at zero are the Bayes factor: what the data did to the density there (Savage and
# Dickey). The posterior says how large the effect is, if there is one: it could be small or huge.
# Ten patients tell that the drugs differ better than by how much.
#
# **One direction.** Had one expected the second drug to be stronger before seeing the data, H1
# would be a prior on positive effects. It risks more, and gains up to a factor of two. Against
# the other direction, the same data speak for no effect at all.

# %%
for alternative in ("greater", "less"):
    one_sided = ev.bf.t_test(drug2, drug1, paired=True, alternative=alternative)
    print(f"{one_sided.conclusion} ({one_sided.log_bf10:+.2f} nats)")

# %% [markdown]
# ## Does it depend on the prior?

# %% alt="BF10 against the width of the prior: 4 at 0.07, above 10 from 0.26 to 2.83."
robustness = sleep.robustness()
curve = robustness.to_pandas()
strong = curve[curve["log_bf10"] > np.log(10)]
print(
    f"above 10 for widths from {strong['scale'].min():.2f} to {strong['scale'].max():.2f}"
)
print(f"largest: {np.exp(curve['log_bf10'].max()):.1f}")
robustness.plot()
plt.show()

# %% [markdown]
# No reasonable width changes the conclusion. Nor does another kind of prior, such as one that
# expects effects of about a third of a standard deviation:

# %%
informed = ev.bf.t_test(drug2, drug1, paired=True, prior=dist.StudentT(3, 0.35, 0.102))
print(informed.conclusion)

# %% [markdown]
# ## And on when one stopped?
#
# A Bayes factor may be looked at after each patient; the rule by which one stops has no part in
# it. The order of the patients does: it is that of the table.

# %% alt="BF10 against the number of patients: 27 after eight, 9 after nine, 17 after ten."
sequential = sleep.sequential()
print(sequential.to_pandas().assign(bf10=np.exp(sequential.log_bf10)).round(2).to_string())
axes = sequential.plot()
axes.set_xlabel("patients")
plt.show()

# %% [markdown]
# The ninth patient slept 4.6 hours longer, in the direction of the effect, and the Bayes factor
# fell: such a difference says that differences vary more than those of the others did.
#
# ## Planning the next study
#
# How many patients would it take? Let the effect be half a standard deviation, which is half of
# the posterior's median, and let one look after each patient, from the tenth to the hundredth.

# %% alt="Share of studies that reached each threshold against the number of patients."
plan = ev.bf.design(0.5, "pairs", n_min=10, n_max=100, upper=10, lower=1 / 6)
print(plan)
figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
plan.plot(axes)
plt.show()

# %% [markdown]
# Half of such studies end with 31 patients or fewer, and 98% of them find the effect. Without an
# effect, four in a hundred would find one, and evidence for no effect takes more than 40 patients:
# it grows with the square root of n, that for an effect exponentially.
#
# ## What to write
#
# > A Bayesian paired t test with a Cauchy prior of width √2/2 on the effect size gave strong
# > evidence for a difference between the drugs, BF10 = 17.3; the posterior median of the effect
# > size was 1.08, with a 95% interval from 0.28 to 1.98. BF10 exceeded 10 for all widths of the
# > prior from 0.26 to 2.83.
#
# The prior belongs to the result: a Bayes factor without it cannot be checked. Say, too, whether
# the direction was chosen before the data were seen.
#
# ## What could mislead here
#
# - **The Bayes factor is not the probability of H1.** It multiplies the odds that one had before.
#   With even odds, 17.3 makes a probability of 0.945.
# - **One direction after the fact** doubles the Bayes factor and is not to be believed.
# - **Normal differences.** One of ten is far from the others. A test with heavier tails would ask
#   less of it; `ev.Model` can say it.
# - **Pairs as two samples.** Without `paired=True` the differences between patients would count as
#   noise, and most of the evidence would be gone.
