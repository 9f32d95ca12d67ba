"""A set of videos written again, at the size that is trained on."""
