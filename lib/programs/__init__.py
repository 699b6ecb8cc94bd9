"""Tensor programs: their latencies, from raw records to whole networks and fast schedules."""
