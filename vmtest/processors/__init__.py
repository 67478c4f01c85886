"""Guests with many CPUs in several topologies, and what happens in them."""
