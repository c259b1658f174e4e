"""From a decision log to the rows that training may read."""
