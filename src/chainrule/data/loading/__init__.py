"""Loading: from a name or a path, through a scan of the whole source, to scaled data in three splits."""
