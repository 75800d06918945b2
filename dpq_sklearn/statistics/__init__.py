"""Private statistics of columns, without scikit-learn."""
