"""The direct method: model the reward, take what it says is best."""
