"""The journal while its run is driven: numbers, barriers, fences, bounds."""
