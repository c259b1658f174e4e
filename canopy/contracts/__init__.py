"""May this leave? The rules an artifact passes before anyone outside sees it."""
