"""Tests: up."""
