"""What is read: metadata, manifests, data files and stored results, each once and only as far as it is needed."""
