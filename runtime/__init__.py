"""Serving: slim, free of torch, mlflow, hydra, scikit-learn and pandas."""
