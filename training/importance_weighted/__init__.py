"""Importance-weighted classification: imitate what was rewarded, whoever was likely to try it."""
