"""HTTPS with mutual TLS: connections, certificates, bodies, pages."""
