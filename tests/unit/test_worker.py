"""The worker: claims, drives, drains."""
