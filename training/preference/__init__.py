"""Preferences as a loss: what pairwise verdicts say of two plans, against a reference policy."""
