"""The one reader, validator and exporter of decision logs."""
