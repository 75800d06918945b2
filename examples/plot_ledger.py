"""
How many fits fit into a budget?
================================

A :class:`~dpq_sklearn.PrivacyLedger` refuses the fit that would exceed its cap. How soon that
happens depends on delta. Without delta, the total eps grows with the number of fits. With a small
delta it grows with the square root of that number once there are many of them.
"""

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np

from dpq_sklearn import BudgetExceededError, DPKBinsDiscretizer, PrivacyLedger

X = np.random.default_rng(0).lognormal(size=(20_000, 1))

# %%
# Create two ledgers with the same cap on eps, and repeat a small fit until it is refused. Each fit
# is charged before it reads the data, so the refused fit has not read them.
folder = tempfile.TemporaryDirectory()
totals = {}
for delta in (0.0, 1e-6):
    path = os.path.join(folder.name, f"delta_{delta:g}.sqlite")
    ledger = PrivacyLedger(path, eps=1.0, delta=delta)
    binner = DPKBinsDiscretizer(n_bins=8, eps=0.1, ledger=ledger)
    totals[delta] = [0.0]
    try:
        while True:
            binner.fit(X)
            totals[delta].append(ledger.spent().eps)
    except BudgetExceededError as refusal:
        n_fits = len(totals[delta]) - 1
        left = refusal.left.eps
        print(f"delta={delta:g}: {n_fits} fits, then refused; left: eps={left:.2g}")
folder.cleanup()

# %%
# Both totals start on the same straight line. With a delta, the total leaves this line as soon as
# zCDP has the lower total.
fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
styles = {0.0: ("s", "#D55E00", "delta = 0"), 1e-6: ("o", "#0072B2", "delta = 1e-6")}
for delta, (marker, color, label) in styles.items():
    n_fits = len(totals[delta]) - 1
    ax.plot(
        totals[delta], marker=marker, markevery=5, color=color,
        label=f"{label}: {n_fits} fits until refused",
    )  # fmt: skip
    ax.plot(n_fits, totals[delta][-1], marker="X", ms=11, color=color)
ax.axhline(1.0, color="black", linestyle="--", label="cap of both ledgers: eps = 1")
ax.set(
    xlabel="fits, eps = 0.1 each (8 bins of one feature)",
    ylabel="total eps spent",
    title="The same fit, charged to two ledgers",
    xlim=(0, None),
    ylim=(0, None),
)
ax.legend(frameon=False, loc="lower right")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
