"""Behaviour cloning: imitate the logging policy on its feasible plans."""
