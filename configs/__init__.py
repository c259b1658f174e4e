"""Data only: Hydra groups for `canopy-train`, gate files, runtime defaults."""
