"""Tests: etcd."""
