"""Advantage-weighted regression: imitate the logged plans that went better than expected."""
