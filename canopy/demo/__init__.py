"""The demonstration: the product's own commands, run end to end on two logs."""
