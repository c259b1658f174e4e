"""The kernel: what every package of Canopy agrees on; it imports none of the others."""
