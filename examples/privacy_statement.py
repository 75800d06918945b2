"""
What do I hand to the data protection officer?
==============================================

``privacy_statement`` writes one page about a fitted pipeline: the guarantee, the released numbers,
their cost, and the limits of the guarantee. ``privacy_of`` returns the same facts as an object, and
finds steps that invalidate the guarantee.
"""

# sphinx_gallery_thumbnail_path = "_static/chooser_pipeline.png"

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from dpq_sklearn import DPKBinsDiscretizer, PrivacyLedger, privacy_of, privacy_statement

rng = np.random.default_rng(0)
X = pd.DataFrame({"age": rng.integers(18, 80, 5000), "income": rng.lognormal(10, 1, 5000)})
y = X["income"] > 20_000

# %%
# Fit a pipeline that is charged to a ledger.
ledger = PrivacyLedger(eps=3.0)
pipeline = make_pipeline(DPKBinsDiscretizer(4, ledger=ledger), LogisticRegression())
pipeline.fit(X, y)
print(privacy_statement(pipeline))

# %%
# A scaler before the transformer learns from all rows: one outlier moves every scaled number, and
# with them the edges. This invalidates the guarantee, and ``privacy_of`` says so.
scaled = make_pipeline(MinMaxScaler(), DPKBinsDiscretizer(4, ledger=ledger), LogisticRegression())
privacy = privacy_of(scaled.fit(X, y))
print(privacy)
assert not privacy.holds

# %%
# ``privacy_statement`` also accepts the ledger. ``format="html"`` returns a page for a browser.
print(privacy_statement(ledger))
