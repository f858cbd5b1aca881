"""Generated data: points, sequences, pairs of texts and captioned images drawn from known distributions."""
