"""What features are worth over a whole data set: importances by the loss, and how an output depends on each feature."""
