"""Data only: frozen golden cases, one folder per discipline and version."""
