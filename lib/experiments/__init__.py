"""What the GST thesis compares: four models of whole graphs, their settings, inputs and folds."""
