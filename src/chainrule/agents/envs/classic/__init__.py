"""Control problems of few numbers, with the constants and limits of Gymnasium."""
