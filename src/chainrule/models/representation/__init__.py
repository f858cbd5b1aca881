"""Models that turn texts and images into vectors: masked language models, embeddings, readers, joint spaces."""
