"""Offline learning: objectives, data path, runs and the export to the serving artifact."""
