"""Evidence that did not train the policy: estimators, intervals, tiers and promotion."""
