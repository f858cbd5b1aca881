"""Language models and encoder-decoders: probabilities of the next token, and all that follows from them."""
