"""What a run is: pure values. No I/O, no clock, no chance, nothing async."""
