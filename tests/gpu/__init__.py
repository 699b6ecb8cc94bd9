"""Checks that need a card."""
