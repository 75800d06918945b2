"""The two scikit-learn transformers."""
