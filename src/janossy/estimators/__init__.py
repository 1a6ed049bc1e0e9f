"""From a user's own sets to a trained model (needs the extra ``estimators``)."""
