"""What a layout means: which tensor it is about, and where a configuration makes data move."""
