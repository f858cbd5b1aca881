"""Text data: tokenizers, windows and packed documents, pairs of texts, captions, vectors of words."""
