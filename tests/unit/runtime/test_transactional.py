"""Transactional calls: with the user's own table, or not at all."""
