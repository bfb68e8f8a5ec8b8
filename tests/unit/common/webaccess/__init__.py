"""Tests: common, webaccess."""
