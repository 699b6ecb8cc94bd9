"""The networks of the GST thesis."""
