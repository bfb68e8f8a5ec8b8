"""Tests: durable."""
