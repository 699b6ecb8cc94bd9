"""The models of the thesis on graph segment training: gst, gat, partitioning, pooling."""
