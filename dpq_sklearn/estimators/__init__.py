"""The scikit-learn transformers."""
