"""Guests with many CPUs in several topologies, and their tests."""
