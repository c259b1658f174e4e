"""Changes of the schema, in order; each can be taken back."""
