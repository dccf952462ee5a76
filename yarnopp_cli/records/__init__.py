"""Plain data of the cluster: identifiers, requests, reports, messages. Imports nothing but executor.records."""
