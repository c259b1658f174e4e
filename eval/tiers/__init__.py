"""One module per tier of evidence; none leans on another."""
