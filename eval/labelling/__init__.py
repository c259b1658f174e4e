"""Labels that people give: blind, one at a time, with who gave each and when."""
