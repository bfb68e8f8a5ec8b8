"""Tests of Gantry."""
