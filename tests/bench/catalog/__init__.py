"""The catalog beside Iceberg's reference server and Nessie, over HTTP, with the same client and the same work."""
